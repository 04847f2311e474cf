// SPDX-License-Identifier: Apache-2.0
#include "store/rows/retention.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/clock.h"
#include "store/rows/artifacts.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/sessions.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kOld[] =
    "SELECT seq FROM executions WHERE finished_at>0 AND finished_at<=? ORDER BY finished_at, seq"
    " LIMIT ?";
constexpr char kSurplus[] = "SELECT max(0, count(*) - ?) FROM executions WHERE finished_at>0";
constexpr char kOldest[] =
    "SELECT seq FROM executions WHERE finished_at>0 ORDER BY finished_at, seq LIMIT ?";
constexpr char kUnarchived[] =
    "SELECT seq FROM executions WHERE finished_at>0 AND archived_at=0 AND finished_at<=?"
    " ORDER BY finished_at, seq LIMIT ?";
constexpr char kArchive[] = "UPDATE executions SET archived_at=? WHERE seq=?";
constexpr char kDropOutput[] = "DELETE FROM outputs WHERE execution=?";
constexpr char kDropRequest[] = "DELETE FROM requests WHERE execution=?";
constexpr char kDelete[] = "DELETE FROM executions WHERE seq=?";

Result<std::vector<uint64_t>> pick(Statement& statement) {
  std::vector<uint64_t> out;
  while (TRY(statement.step()))
    out.push_back(statement.natural(0));
  return out;
}

Result<> runFor(Database& db, const char* sql, uint64_t seq) {
  Statement statement = TRY(db.use(sql));
  return statement.bind(seq).run();
}

Result<std::vector<uint64_t>> toDelete(Database& db, const Retention& rules, int64_t now) {
  if (rules.delete_after_us > 0) {
    Statement old = TRY(db.use(kOld));
    auto seqs = TRY(pick(old.bind(now - rules.delete_after_us, kRetainBatch)));
    if (!seqs.empty()) return seqs;
  }
  if (rules.keep_at_most == 0) return {};
  Statement surplus = TRY(db.use(kSurplus));
  TRY(surplus.bind(rules.keep_at_most).step());
  const int64_t count = std::min<int64_t>(surplus.integer(0), kRetainBatch);
  if (count <= 0) return std::vector<uint64_t>{};
  Statement oldest = TRY(db.use(kOldest));
  return pick(oldest.bind(count));
}

// Deletes records; returns the blobs of their artifacts.
Result<std::vector<model::BlobName>> erase(Database& db, const std::vector<uint64_t>& seqs) {
  std::vector<model::BlobName> blobs;
  for (const uint64_t seq : seqs) {
    std::ranges::move(TRY(blobsOf(db, seq)), std::back_inserter(blobs));
    TRY(runFor(db, kDelete, seq));  // and its parts, by ON DELETE CASCADE
  }
  return blobs;
}

Result<> archive(Database& db, const std::vector<uint64_t>& seqs, int64_t now) {
  for (const uint64_t seq : seqs) {
    TRY(runFor(db, kDropOutput, seq));
    TRY(runFor(db, kDropRequest, seq));
    Statement mark = TRY(db.use(kArchive));
    TRY(mark.bind(now, seq).run());
  }
  return {};
}

model::AuditEvent eventOf(const Retained& done) {
  return {
      .action = "ledger.retained",
      .subject = "ledger",
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .details = {{"archived", done.archived},
                  {"artifacts", done.artifacts},
                  {"deleted", done.deleted},
                  {"escalations", done.escalations},
                  {"sessions", done.sessions}}};
}

}  // namespace

Result<Retained> retain(Transaction tx, const Retention& rules) {
  const int64_t now = base::wallMicros();
  Retained done;
  const auto deleted = TRY(toDelete(tx.db, rules, now));
  auto blobs = TRY(erase(tx.db, deleted));
  done.deleted = deleted.size();
  auto expired = TRY(expireArtifacts(tx.db, now, kRetainBatch));
  done.artifacts = expired.size();
  std::ranges::move(expired, std::back_inserter(blobs));
  TRY(freeUnnamed(tx.db, std::move(blobs)));
  done.blobs = TRY(freedBlobs(tx.db, rules.removed, kRetainBatch));
  if (rules.archive_after_us > 0) {
    Statement old = TRY(tx.db.use(kUnarchived));
    const auto archived = TRY(pick(old.bind(now - rules.archive_after_us, kRetainBatch)));
    TRY(archive(tx.db, archived, now));
    done.archived = archived.size();
  }
  if (rules.delete_after_us > 0) {
    done.sessions = TRY(dropSessions(tx.db, now - rules.delete_after_us, kRetainBatch));
    done.escalations = TRY(dropEscalations(tx.db, now - rules.delete_after_us, kRetainBatch));
  }
  if (done.any()) TRY(tx.chain.append(tx.db, eventOf(done)));
  return done;
}

}  // namespace cloister::store
