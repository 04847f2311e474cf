// SPDX-License-Identifier: Apache-2.0
#include "store/rows/image_bindings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "store/records/record.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kNote[] =
    "INSERT OR IGNORE INTO image_bindings(execution, place, since)"
    " SELECT seq, ?, ? FROM executions WHERE id=?";
constexpr char kOpen[] =
    "SELECT e.seq, e.id, e.tenant, b.since FROM image_bindings b"
    " JOIN executions e ON e.seq=b.execution WHERE b.entry IS NULL AND b.place=?"
    " ORDER BY b.execution LIMIT ?";
constexpr char kBind[] = "UPDATE image_bindings SET entry=?, digest=? WHERE execution=?";
constexpr char kLetGo[] = "DELETE FROM image_bindings WHERE execution=?";
constexpr char kOf[] =
    "SELECT entry, digest FROM image_bindings WHERE execution=? AND entry IS NOT NULL";

constexpr uint32_t kBatch = 300;  // ids of one entry take some 10 kB

struct Open {
  uint64_t seq = 0;
  std::string id;
};

// Executions of one tenant, all with sandboxes made before the change, or all made after the
// change, like the oldest execution's sandbox.
struct Batch {
  std::string tenant;
  bool holds = false;  // the image has not changed since the runs
  std::vector<Open> executions;
};

Result<Batch> pick(Database& db, const VerifiedImage& image) {
  Statement row = TRY(db.use(kOpen));
  row.bind(image.place, kBatch);
  Batch batch;
  while (TRY(row.step())) {
    const bool holds = row.integer(3) > image.changed_at;
    if (batch.executions.empty()) {
      batch.tenant = row.text(2);
      batch.holds = holds;
    }
    if (row.text(2) != batch.tenant || holds != batch.holds) continue;
    batch.executions.push_back({row.natural(0), row.text(1)});
  }
  return batch;
}

model::AuditEvent eventOf(const Batch& batch, const VerifiedImage& image) {
  base::json::array ids;
  for (const Open& each : batch.executions)
    ids.emplace_back(each.id);
  base::json::object details = {{"digest", image.digest},
                                {"node", image.node},
                                {"changed_at", image.changed_at},
                                {"executions", std::move(ids)}};
  if (!batch.holds) {
    base::json::array changed(image.changed.begin(), image.changed.end());
    if (changed.empty() && !image.newest.empty()) changed.emplace_back(image.newest);
    details["changed"] = std::move(changed);
  }
  return {.action = batch.holds ? "image.verified" : "image.not_verified",
          .subject = image.digest,
          .principal =
              {.tenant = batch.tenant, .app = "cloister", .agent = "", .user = "", .key_id = ""},
          .details = std::move(details)};
}

}  // namespace

Result<void> noteUnverified(Transaction tx, const Unverified& execution) {
  Statement note = TRY(tx.db.use(kNote));
  return note.bind(execution.place, execution.since, execution.execution).run();
}

Result<uint64_t> bindImage(Transaction tx, const VerifiedImage& image) {
  const Batch batch = TRY(pick(tx.db, image));
  if (batch.executions.empty()) return uint64_t{0};
  const uint64_t entry = TRY(tx.chain.append(tx.db, eventOf(batch, image)));
  for (const Open& each : batch.executions) {
    if (batch.holds) {
      Statement bind = TRY(tx.db.use(kBind));
      TRY(bind.bind(entry, image.digest, each.seq).run());
    } else {
      Statement drop = TRY(tx.db.use(kLetGo));
      TRY(drop.bind(each.seq).run());
    }
  }
  return uint64_t{batch.executions.size()};
}

Result<uint64_t> addImage(Database& db, model::Execution& execution) {
  if (!execution.provenance.image_digest.empty()) return uint64_t{0};
  Statement row = TRY(db.use(kOf));
  if (!TRY(row.bind(execution.seq).step())) return uint64_t{0};
  execution.provenance.image_digest = row.text(1);
  return row.natural(0);
}

bool bindsImage(const model::AuditEntry& entry, const std::string& execution,
                const std::string& digest) {
  const base::json::object& details = entry.event.details;
  const auto* bound = details.if_contains("digest");
  const auto* ids = details.if_contains("executions");
  return entry.event.action == "image.verified" && bound != nullptr && bound->is_string() &&
         bound->get_string() == digest && ids != nullptr && ids->is_array() &&
         std::ranges::any_of(ids->get_array(), [&](const base::json::value& id) {
           return id.is_string() && id.get_string() == execution;
         });
}

}  // namespace cloister::store
