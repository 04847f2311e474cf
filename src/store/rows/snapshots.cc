// SPDX-License-Identifier: Apache-2.0
#include "store/rows/snapshots.h"

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "store/records/clean.h"
#include "store/records/members.h"
#include "store/rows/artifacts.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kAddManifest[] = "INSERT INTO artifacts VALUES (?,NULL,?,?,?,?,?,?,?,0,?)";
constexpr char kAdd[] = "INSERT INTO snapshots VALUES (?,?,?)";
constexpr char kAddChunk[] = "INSERT INTO snapshot_chunks VALUES (?,?,?,?)";
constexpr char kSetRecord[] = "UPDATE snapshots SET record=? WHERE id=?";
constexpr char kCount[] = "SELECT count(*) FROM snapshots WHERE tenant=?";
constexpr char kChunksOf[] = "SELECT tenant, sha256 FROM snapshot_chunks WHERE snapshot=?";
constexpr char kRemove[] = "DELETE FROM artifacts WHERE id=?";
constexpr char kNote[] = "INSERT OR IGNORE INTO freed_blobs VALUES (?,?)";
constexpr char kType[] = "application/vnd.cloister.snapshot";
constexpr std::string_view kSelect =
    "SELECT s.record, a.agent FROM snapshots s JOIN artifacts a ON a.id=s.id"
    " WHERE (a.expires_at=0 OR a.expires_at>?) AND ";
constexpr uint32_t kMaxList = 500;
constexpr std::string_view kLast = "~";  // sorts after every id

json::value encode(const std::optional<model::SnapshotMemory>& memory) {
  if (!memory) return nullptr;
  return json::object{{"runtime", memory->runtime},
                      {"image", memory->image},
                      {"limits", toJsonObject(memory->limits)}};
}

void decode(Members from, model::SnapshotMemory& memory) {
  memory.runtime = from.text("runtime");
  memory.image = from.text("image");
  decode(from.in("limits"), memory.limits);
}

std::string encode(const model::Snapshot& s) {
  const json::object out = {{"id", s.id},
                            {"tenant", s.tenant},
                            {"session_id", s.session_id},
                            {"name", s.name},
                            {"metadata", cleanObject(s.metadata)},
                            {"entries", s.entries},
                            {"bytes", s.bytes},
                            {"chunks", s.chunks},
                            {"added_bytes", s.added_bytes},
                            {"manifest_bytes", s.manifest_bytes},
                            {"sha256", s.sha256},
                            {"created_at", s.created_at},
                            {"expires_at", s.expires_at},
                            {"memory", encode(s.memory)}};
  return cleanText(base::toJson(out));
}

Result<model::Snapshot> decode(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = size_t{1} << 22}));
  bool bad = !value.is_object();
  model::Snapshot s;
  if (!bad) {
    Members from(value.get_object(), bad);
    s.id = from.text("id");
    s.tenant = from.text("tenant");
    s.session_id = from.text("session_id");
    s.name = from.text("name");
    s.metadata = from.object("metadata");
    from.integer("entries", s.entries);
    from.integer("bytes", s.bytes);
    from.integer("chunks", s.chunks);
    from.integer("added_bytes", s.added_bytes);
    from.integer("manifest_bytes", s.manifest_bytes);
    s.sha256 = from.text("sha256");
    from.integer("created_at", s.created_at);
    from.integer("expires_at", s.expires_at);
    if (!from.isNull("memory")) decode(from.in("memory"), s.memory.emplace());
  }
  if (bad) return fail(Code::kInternal, "reading a snapshot's record: its members are not ours");
  return s;
}

// Reads a row with (record, agent) first.
Result<model::Snapshot> readRow(const Statement& row) {
  model::Snapshot s = TRY(decode(row.text(0)));
  s.agent = row.text(1);
  return s;
}

std::unexpected<Error> overQuota(const std::string& what) {
  return fail(Code::kQuota, "keeping a snapshot: the tenant may keep " + what);
}

Result<> checkRoom(Database& db, const model::Snapshot& s, const model::SnapshotQuota& quota) {
  if (TRY(countSnapshots(db, s.tenant)) >= quota.snapshots) {
    return overQuota(std::to_string(quota.snapshots) +
                     " snapshots; delete some, or raise snapshots.per_tenant");
  }
  const model::ArtifactQuota used = TRY(readArtifactUsage(db, s.tenant));
  if (used.artifacts < quota.all.artifacts) return {};
  return overQuota(std::to_string(quota.all.artifacts) +
                   " artifacts and snapshots; delete some, or raise artifacts.quota_count");
}

Result<> addChunks(Database& db, const NewSnapshot& made) {
  for (const model::SnapshotChunk& chunk : made.chunks) {
    Statement add = TRY(db.use(kAddChunk));
    TRY(add.bind(made.snapshot.id, made.snapshot.tenant, chunk.sha256, chunk.size).run());
  }
  return {};
}

}  // namespace

Result<model::Snapshot> addSnapshot(Transaction tx, const NewSnapshot& made,
                                    const model::SnapshotQuota& quota, model::AuditEvent event) {
  model::Snapshot s = made.snapshot;
  TRY(checkRoom(tx.db, s, quota));
  const uint64_t before = TRY(readArtifactUsage(tx.db, s.tenant)).bytes;
  Statement manifest = TRY(tx.db.use(kAddManifest));
  TRY(manifest
          .bind(s.id, s.tenant, "snapshot", s.manifest_bytes, kType, s.sha256, s.created_at,
                s.expires_at, s.agent)
          .run());
  const std::string first = encode(s);
  Statement add = TRY(tx.db.use(kAdd));
  TRY(add.bind(s.id, s.tenant, first).run());
  TRY(addChunks(tx.db, made));
  const uint64_t after = TRY(readArtifactUsage(tx.db, s.tenant)).bytes;
  if (after > quota.all.bytes) {  // the error rolls the snapshot's rows back
    return overQuota(std::to_string(quota.all.bytes) + " bytes, keeps " + std::to_string(before) +
                     ", and this would be " + std::to_string(after - before) +
                     " more; delete some, or raise artifacts.quota_mb");
  }
  s.added_bytes = after - before;
  const std::string record = encode(s);
  Statement set = TRY(tx.db.use(kSetRecord));
  TRY(set.bind(record, s.id).run());
  event.details["added_bytes"] = s.added_bytes;
  TRY(tx.chain.append(tx.db, event));
  return s;
}

Result<std::vector<model::BlobName>> removeSnapshot(Transaction tx, const Scope& scope,
                                                    const std::string& id,
                                                    const model::AuditEvent& event) {
  const model::Snapshot s = TRY(getSnapshot(tx.db, scope, id, base::wallMicros()));
  std::vector<model::BlobName> blobs = {s.manifest()};
  {
    Statement row = TRY(tx.db.use(kChunksOf));
    row.bind(id);
    while (TRY(row.step()))
      blobs.push_back({row.text(0), row.text(1)});
  }
  Statement remove = TRY(tx.db.use(kRemove));
  TRY(remove.bind(id).run());
  TRY(tx.chain.append(tx.db, event));
  return freeUnnamed(tx.db, std::move(blobs));
}

Result<void> noteBlob(Transaction tx, const model::BlobName& blob) {
  Statement note = TRY(tx.db.use(kNote));
  return note.bind(blob.tenant, blob.sha256).run();
}

Result<model::Snapshot> getSnapshot(Database& db, const Scope& scope, const std::string& id,
                                    int64_t now) {
  static const std::string kSql = std::string(kSelect) +
                                  "s.id=?2 AND (?3 IS NULL OR s.tenant=?3)"
                                  " AND (?4 IS NULL OR a.agent=?4)";
  Statement row = TRY(db.use(kSql));
  if (TRY(row.bind(now, id, scope.tenant(), scope.agent()).step())) return readRow(row);
  return fail(Code::kNotFound, "there is no snapshot " + id);
}

Result<std::vector<model::Snapshot>> listSnapshots(Database& db, const Scope& scope,
                                                   const ArtifactQuery& query, int64_t now) {
  static const std::string kOrder = " ORDER BY s.id DESC LIMIT ?";
  static const std::string kAll = std::string(kSelect) + "s.id<?" + kOrder;
  static const std::string kOfTenant = std::string(kSelect) + "s.tenant=? AND s.id<?" + kOrder;
  static const std::string kOfAgent =
      std::string(kSelect) + "s.tenant=? AND a.agent=? AND s.id<?" + kOrder;
  const auto& tenant = scope.tenant();
  const auto& agent = scope.agent();
  Statement row = TRY(db.use(agent ? kOfAgent : tenant ? kOfTenant : kAll));
  row.bind(now);
  if (tenant) row.bind(*tenant);
  if (agent) row.bind(*agent);
  row.bind(query.before_id.empty() ? kLast : std::string_view(query.before_id));
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Snapshot> out;
  while (TRY(row.step()))
    out.push_back(TRY(readRow(row)));
  return out;
}

Result<uint64_t> countSnapshots(Database& db, const std::string& tenant) {
  Statement row = TRY(db.use(kCount));
  TRY(row.bind(tenant).step());
  return row.natural(0);
}

}  // namespace cloister::store
