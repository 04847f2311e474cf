// SPDX-License-Identifier: Apache-2.0
#include "store/rows/artifacts.h"

#include <algorithm>

#include "base/clock.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kPut[] = "INSERT OR IGNORE INTO artifacts VALUES (?,?,?,?,?,?,?,?,?,?,?)";
constexpr char kAdd[] = "INSERT INTO artifacts VALUES (?,NULL,?,?,?,?,?,?,?,0,?)";
constexpr char kRemove[] = "DELETE FROM artifacts WHERE id=?";
constexpr char kRemoveOfTenant[] = "DELETE FROM artifacts WHERE tenant=?";
constexpr char kUsage[] = "SELECT artifacts, bytes FROM artifact_usage WHERE tenant=?";
constexpr char kNamed[] =
    "SELECT 1 FROM artifacts WHERE tenant=?1 AND sha256=?2"
    " UNION ALL SELECT 1 FROM chunks WHERE tenant=?1 AND sha256=?2 LIMIT 1";
constexpr char kBlobsOf[] = "SELECT DISTINCT tenant, sha256 FROM artifacts WHERE execution=?";
constexpr char kNoteFreed[] = "INSERT OR IGNORE INTO freed_blobs VALUES (?,?)";
constexpr char kDropFreed[] = "DELETE FROM freed_blobs WHERE tenant=? AND sha256=?";
constexpr char kDropNamedAgain[] =
    "DELETE FROM freed_blobs WHERE EXISTS (SELECT 1 FROM artifacts a"
    " WHERE a.tenant=freed_blobs.tenant AND a.sha256=freed_blobs.sha256)"
    " OR EXISTS (SELECT 1 FROM chunks c"
    " WHERE c.tenant=freed_blobs.tenant AND c.sha256=freed_blobs.sha256)";
constexpr char kFreed[] = "SELECT tenant, sha256 FROM freed_blobs LIMIT ?";
constexpr char kExpired[] =
    "SELECT id, tenant, sha256 FROM artifacts WHERE expires_at>0 AND expires_at<=?"
    " ORDER BY expires_at LIMIT ?";
constexpr std::string_view kSelect =
    "SELECT a.id, a.path, a.size, a.content_type, a.sha256, a.expires_at, a.tenant, e.id,"
    " a.created_at, a.full_size, a.agent FROM artifacts a LEFT JOIN executions e ON "
    "e.seq=a.execution"
    " WHERE (a.expires_at=0 OR a.expires_at>?)"
    " AND NOT EXISTS (SELECT 1 FROM snapshots s WHERE s.id=a.id) AND ";
constexpr uint32_t kMaxList = 500;
constexpr std::string_view kLast = "~";  // sorts after every id

model::Artifact readRow(const Statement& row) {
  return {.ref = {.id = row.text(0),
                  .path = row.text(1),
                  .size = row.natural(2),
                  .content_type = row.text(3),
                  .sha256 = row.text(4),
                  .expires_at = row.integer(5),
                  .full_size = row.natural(9)},
          .tenant = row.text(6),
          .agent = row.text(10),
          .execution_id = row.text(7),
          .created_at = row.integer(8)};
}

// The artifact of a whole output, for outputs missing from `artifacts`.
model::ArtifactRef outputRef(const char* path, const model::KeptOutput& kept,
                             const std::string& sha256) {
  return {.id = kept.artifact,
          .path = path,
          .size = kept.total,
          .content_type = "text/plain; charset=utf-8",
          .sha256 = sha256};
}

Result<> put(Database& db, const model::Execution& execution, const model::ArtifactRef& ref) {
  Statement statement = TRY(db.use(kPut));
  return statement
      .bind(ref.id, execution.seq, execution.principal.tenant, ref.path, ref.size, ref.content_type,
            ref.sha256, execution.finished_at, ref.expires_at, ref.full_size,
            execution.principal.agent)
      .run();
}

std::unexpected<Error> overQuota(const std::string& what, uint64_t most, uint64_t used) {
  return fail(Code::kQuota, "storing the artifact: the tenant may keep " + std::to_string(most) +
                                " " + what + " and keeps " + std::to_string(used) +
                                "; delete some (DELETE /v1/artifacts/{id}) or raise the quota");
}

}  // namespace

Result<> putArtifacts(Database& db, const model::Execution& execution) {
  for (const model::ArtifactRef& ref : execution.artifacts)
    TRY(put(db, execution, ref));
  const model::Provenance& from = execution.provenance;
  if (!execution.out.artifact.empty()) {
    TRY(put(db, execution, outputRef("stdout", execution.out, from.stdout_sha256)));
  }
  if (!execution.err.artifact.empty()) {
    TRY(put(db, execution, outputRef("stderr", execution.err, from.stderr_sha256)));
  }
  return {};
}

Result<void> addArtifact(Transaction tx, const model::Artifact& artifact,
                         const model::ArtifactQuota& quota, const model::AuditEvent& event) {
  const model::ArtifactRef& ref = artifact.ref;
  const model::ArtifactQuota used = TRY(readArtifactUsage(tx.db, artifact.tenant));
  if (used.artifacts >= quota.artifacts) {
    return overQuota("artifacts", quota.artifacts, used.artifacts);
  }
  if (ref.size > quota.bytes - std::min(used.bytes, quota.bytes)) {
    return overQuota("bytes", quota.bytes, used.bytes);
  }
  Statement add = TRY(tx.db.use(kAdd));
  TRY(add.bind(ref.id, artifact.tenant, ref.path, ref.size, ref.content_type, ref.sha256,
               artifact.created_at, ref.expires_at, artifact.agent)
          .run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<std::vector<model::BlobName>> removeArtifact(Transaction tx, const Scope& scope,
                                                    const std::string& id,
                                                    const model::AuditEvent& event) {
  const model::Artifact artifact = TRY(getArtifact(tx.db, scope, id, base::wallMicros()));
  Statement remove = TRY(tx.db.use(kRemove));
  TRY(remove.bind(id).run());
  TRY(tx.chain.append(tx.db, event));
  return freeUnnamed(tx.db, {artifact.blob()});
}

Result<uint64_t> removeArtifacts(Transaction tx, const std::string& tenant,
                                 const model::AuditEvent& event) {
  const model::ArtifactQuota used = TRY(readArtifactUsage(tx.db, tenant));
  Statement remove = TRY(tx.db.use(kRemoveOfTenant));
  TRY(remove.bind(tenant).run());
  TRY(tx.chain.append(tx.db, event));
  return used.artifacts;
}

Result<model::Artifact> getArtifact(Database& db, const Scope& scope, const std::string& id,
                                    int64_t now) {
  static const std::string kSql = std::string(kSelect) +
                                  "a.id=?2 AND (?3 IS NULL OR a.tenant=?3)"
                                  " AND (?4 IS NULL OR a.agent=?4)";
  Statement row = TRY(db.use(kSql));
  if (TRY(row.bind(now, id, scope.tenant(), scope.agent()).step())) return readRow(row);
  return fail(Code::kNotFound, "there is no artifact " + id);
}

Result<std::vector<model::Artifact>> listArtifacts(Database& db, const Scope& scope,
                                                   const ArtifactQuery& query, int64_t now) {
  static const std::string kOrder = " ORDER BY a.id DESC LIMIT ?";
  static const std::string kAll = std::string(kSelect) + "a.id<?" + kOrder;
  static const std::string kOfTenant = std::string(kSelect) + "a.tenant=? AND a.id<?" + kOrder;
  static const std::string kOfAgent =
      std::string(kSelect) + "a.tenant=? AND a.agent=? AND a.id<?" + kOrder;
  const auto& tenant = scope.tenant();
  const auto& agent = scope.agent();
  Statement row = TRY(db.use(agent ? kOfAgent : tenant ? kOfTenant : kAll));
  row.bind(now);
  if (tenant) row.bind(*tenant);
  if (agent) row.bind(*agent);
  row.bind(query.before_id.empty() ? kLast : std::string_view(query.before_id));
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Artifact> out;
  while (TRY(row.step()))
    out.push_back(readRow(row));
  return out;
}

Result<model::ArtifactQuota> readArtifactUsage(Database& db, const std::string& tenant) {
  Statement row = TRY(db.use(kUsage));
  if (!TRY(row.bind(tenant).step())) return model::ArtifactQuota{};
  return model::ArtifactQuota{.artifacts = row.natural(0), .bytes = row.natural(1)};
}

Result<bool> isBlobNamed(Database& db, const model::BlobName& blob) {
  Statement row = TRY(db.use(kNamed));
  return row.bind(blob.tenant, blob.sha256).step();
}

Result<std::vector<model::BlobName>> blobsOf(Database& db, uint64_t execution) {
  Statement row = TRY(db.use(kBlobsOf));
  row.bind(execution);
  std::vector<model::BlobName> out;
  while (TRY(row.step()))
    out.push_back({row.text(0), row.text(1)});
  return out;
}

Result<std::vector<model::BlobName>> expireArtifacts(Database& db, int64_t now, int most) {
  std::vector<std::string> ids;
  std::vector<model::BlobName> blobs;
  {
    Statement row = TRY(db.use(kExpired));
    row.bind(now, most);
    while (TRY(row.step())) {
      ids.push_back(row.text(0));
      blobs.push_back({row.text(1), row.text(2)});
    }
  }
  for (const std::string& id : ids) {
    Statement remove = TRY(db.use(kRemove));
    TRY(remove.bind(id).run());
  }
  return blobs;
}

Result<std::vector<model::BlobName>> freeUnnamed(Database& db, std::vector<model::BlobName> blobs) {
  std::vector<model::BlobName> out;
  for (model::BlobName& blob : blobs) {
    if (blob.sha256.empty() || TRY(isBlobNamed(db, blob))) continue;
    Statement note = TRY(db.use(kNoteFreed));
    TRY(note.bind(blob.tenant, blob.sha256).run());
    out.push_back(std::move(blob));
  }
  return out;
}

Result<std::vector<model::BlobName>> freedBlobs(Database& db,
                                                const std::vector<model::BlobName>& removed,
                                                int most) {
  for (const model::BlobName& blob : removed) {
    Statement drop = TRY(db.use(kDropFreed));
    TRY(drop.bind(blob.tenant, blob.sha256).run());
  }
  TRY(db.runKept(kDropNamedAgain));
  Statement row = TRY(db.use(kFreed));
  row.bind(most);
  std::vector<model::BlobName> out;
  while (TRY(row.step()))
    out.push_back({row.text(0), row.text(1)});
  return out;
}

}  // namespace cloister::store
