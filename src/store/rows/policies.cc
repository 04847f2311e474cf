// SPDX-License-Identifier: Apache-2.0
#include "store/rows/policies.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crypto.h"
#include "store/records/clean.h"
#include "store/rows/executions.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kNewest[] = "SELECT max(version) FROM policies";
constexpr char kAdd[] =
    "INSERT INTO policies(name, sha256, document, origin, tenant, app, agent, user, key_id,"
    " applied_at, note, restores) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)";
// Keeps only the newest versions.
constexpr char kDropOld[] =
    "DELETE FROM policies WHERE version NOT IN"
    " (SELECT version FROM policies ORDER BY version DESC LIMIT ?)";
constexpr char kGet[] =
    "SELECT version, name, sha256, origin, tenant, app, agent, user, key_id, applied_at, note,"
    " restores, document FROM policies WHERE version=?";
constexpr char kGetNewest[] =
    "SELECT version, name, sha256, origin, tenant, app, agent, user, key_id, applied_at, note,"
    " restores, document FROM policies ORDER BY version DESC LIMIT 1";
constexpr char kList[] =
    "SELECT version, name, sha256, origin, tenant, app, agent, user, key_id, applied_at, note,"
    " restores FROM policies WHERE version<? ORDER BY version DESC LIMIT ?";
constexpr char kRequests[] =
    "SELECT e.seq, e.record, e.archived_at,"
    " decrypted(r.encrypted, e.tenant, 'request ' || e.id, r.body) FROM plain_executions e"
    " JOIN requests r ON r.execution=e.seq WHERE (?1 IS NULL OR e.tenant=?1)"
    " ORDER BY e.seq DESC LIMIT ?2";
constexpr char kRequest[] =
    "SELECT e.seq, e.record, e.archived_at,"
    " decrypted(r.encrypted, e.tenant, 'request ' || e.id, r.body), r.execution IS NULL"
    " FROM plain_executions e LEFT JOIN requests r ON r.execution=e.seq"
    " WHERE e.id=?1 AND (?2 IS NULL OR e.tenant=?2) AND (?3 IS NULL OR e.agent=?3)";
constexpr uint32_t kMaxList = 500;
constexpr uint32_t kMaxRequests = 1000;
constexpr int kDocument = 12;

PolicyVersion readRow(const Statement& row) {
  return {.version = row.integer(0),
          .name = row.text(1),
          .sha256 = row.text(2),
          .origin = row.text(3),
          .applied_by = {.tenant = row.text(4),
                         .app = row.text(5),
                         .agent = row.text(6),
                         .user = row.text(7),
                         .key_id = row.text(8)},
          .applied_at = row.integer(9),
          .note = row.text(10),
          .restores = row.integer(11),
          .document = {}};
}

Result<RecordedRequest> readRequest(const Statement& row) {
  Record record = TRY(readRecord(row));
  return RecordedRequest{.execution = std::move(record.execution.id),
                         .session_id = std::move(record.execution.session_id),
                         .principal = std::move(record.execution.principal),
                         .request_json = row.text(3)};
}

Result<int64_t> newestVersion(Database& db) {
  Statement row = TRY(db.use(kNewest));
  TRY(row.step());
  return row.integer(0);
}

}  // namespace

Result<int64_t> putPolicy(Transaction tx, const NewPolicy& made, const model::AuditEvent& event) {
  const PolicyVersion& policy = made.policy;
  const int64_t newest = TRY(newestVersion(tx.db));
  if (made.expected && *made.expected != newest) {
    return fail(Code::kConflict,
                "applying the policy: version " + std::to_string(newest) + " is in force, not " +
                    std::to_string(*made.expected),
                "expected_version");
  }
  const model::Principal& who = policy.applied_by;
  {
    Statement add = TRY(tx.db.use(kAdd));
    TRY(add.bind(policy.name, policy.sha256, Blob{policy.document}, policy.origin,
                 cleanText(who.tenant), cleanText(who.app), cleanText(who.agent),
                 cleanText(who.user), who.key_id, policy.applied_at, cleanText(policy.note),
                 policy.restores)
            .run());
  }
  const int64_t version = tx.db.lastRowId();
  {
    Statement drop = TRY(tx.db.use(kDropOld));
    TRY(drop.bind(std::max(made.keep, 1U)).run());
  }
  model::AuditEvent full = event;
  full.subject = "policy:" + std::to_string(version);
  full.details["version"] = version;
  full.details["sha256"] = policy.sha256;
  TRY(tx.chain.append(tx.db, full));
  return version;
}

Result<std::optional<PolicyVersion>> getPolicy(Database& db, int64_t version) {
  Statement row = TRY(db.use(version == 0 ? kGetNewest : kGet));
  if (version != 0) row.bind(version);
  if (!TRY(row.step())) return std::nullopt;
  PolicyVersion policy = readRow(row);
  policy.document = row.text(kDocument);
  return policy;
}

Result<std::vector<PolicyVersion>> listPolicies(Database& db, const PolicyQuery& query) {
  Statement row = TRY(db.use(kList));
  row.bind(query.before == 0 ? INT64_MAX : query.before, std::clamp(query.limit, 1U, kMaxList));
  std::vector<PolicyVersion> out;
  while (TRY(row.step()))
    out.push_back(readRow(row));
  return out;
}

Result<RecordedRequest> getRequest(Database& db, const Scope& scope, const std::string& execution) {
  Statement row = TRY(db.use(kRequest));
  if (!TRY(row.bind(execution, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no execution " + execution);
  }
  if (row.integer(4) != 0) {
    return fail(Code::kNotFound, "the request of " + execution + " is not kept any more");
  }
  return readRequest(row);
}

Result<std::vector<RecordedRequest>> listRequests(Database& db, const Scope& scope,
                                                  uint32_t limit) {
  Statement row = TRY(db.use(kRequests));
  row.bind(scope.tenant(), std::clamp(limit, 1U, kMaxRequests));
  std::vector<RecordedRequest> out;
  while (TRY(row.step()))
    out.push_back(TRY(readRequest(row)));
  return out;
}

}  // namespace cloister::store
