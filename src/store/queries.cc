// SPDX-License-Identifier: Apache-2.0
#include "store/queries.h"

#include <algorithm>

#include "store/chain.h"
#include "store/escalation_record.h"
#include "store/executions.h"
#include "store/proof.h"
#include "store/sealed.h"

namespace cloister::store {
namespace {

constexpr char kGet[] =
    "SELECT seq, record, archived_at FROM executions WHERE id=?1 AND (?2 IS NULL OR tenant=?2)";
constexpr char kRecorded[] =
    "SELECT seq, record, archived_at, accepted_row, state_row FROM executions"
    " WHERE id=?1 AND (?2 IS NULL OR tenant=?2)";
constexpr char kApproval[] =
    "SELECT record, state_row FROM escalations WHERE execution=?1 AND tenant=?2"
    " ORDER BY seq DESC LIMIT 1";
constexpr char kUnfinished[] =
    "SELECT e.seq, e.record, e.archived_at, r.body, s.spec FROM executions e"
    " LEFT JOIN requests r ON r.execution=e.seq LEFT JOIN specs s ON s.execution=e.seq"
    " WHERE e.finished_at=0 ORDER BY e.seq";
constexpr char kAudit[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash"
    " FROM audit WHERE seq>? ORDER BY seq LIMIT ?";
constexpr char kAuditOfTenant[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash"
    " FROM audit WHERE tenant=? AND seq>? ORDER BY seq LIMIT ?";

constexpr uint32_t kMaxList = 500;
constexpr uint32_t kMaxAudit = 1000;

// One statement for each combination of filters, so that each uses the index made for it.
std::string listSql(const Scope& scope, const ListQuery& query) {
  std::string sql = "SELECT seq, record, archived_at FROM executions WHERE seq<?";
  if (scope.tenant()) sql += " AND tenant=?";
  if (query.status) sql += " AND status=?";
  if (!query.agent.empty()) sql += " AND agent=?";
  if (!query.session_id.empty()) sql += " AND session_id<>'' AND session_id=?";
  return sql + " ORDER BY seq DESC LIMIT ?";
}

std::unexpected<Error> noExecution(const std::string& id) {
  return fail(Code::kNotFound, "there is no execution " + id);
}

Result<model::AuditEntry> entryAt(Database& db, int64_t seq) {
  Statement row = TRY(db.use(kAudit));
  if (TRY(row.bind(seq - 1, 1).step())) {
    model::AuditEntry entry = TRY(readEntry(row));
    if (entry.seq == static_cast<uint64_t>(seq)) return entry;
  }
  return fail(Code::kInternal, "audit entry " + std::to_string(seq) + " is missing");
}

Result<std::optional<model::Escalation>> provenApproval(Database& db,
                                                        const model::Execution& execution) {
  Statement row = TRY(db.use(kApproval));
  row.bind(execution.id, execution.principal.tenant);
  if (!TRY(row.step())) return std::optional<model::Escalation>();
  model::Escalation e = TRY(decodeEscalation(row.text(0)));
  const model::AuditEntry state = TRY(entryAt(db, row.integer(1)));
  TRY(proveRecord(e.id, model::statusName(e.status), row.text(0), state));
  return e;
}

}  // namespace

Result<model::Execution> getExecution(Database& db, const Scope& scope, const std::string& id) {
  // Record and output are read from one snapshot: retention may run between them.
  TRY(db.runKept("BEGIN"));
  auto read = [&]() -> Result<model::Execution> {
    Statement row = TRY(db.use(kGet));
    if (!TRY(row.bind(id, scope.tenant()).step())) return noExecution(id);
    Record record = TRY(readRecord(row));
    TRY(addOutput(db, record.execution));
    return std::move(record.execution);
  }();
  TRY(db.runKept("COMMIT"));
  return read;
}

Result<Recorded> recordedExecution(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kRecorded));
  if (!TRY(row.bind(id, scope.tenant()).step())) return noExecution(id);
  Record record = TRY(readRecord(row));
  Recorded recorded{.execution = std::move(record.execution),
                    .accepted = TRY(entryAt(db, row.integer(3))),
                    .state = TRY(entryAt(db, row.integer(4))),
                    .approval = {}};
  TRY(proveEntry(id, recorded.accepted));
  TRY(proveRecord(id, model::statusName(recorded.execution.status), row.text(1), recorded.state));
  recorded.approval = TRY(provenApproval(db, recorded.execution));
  return recorded;
}

Result<std::vector<model::Execution>> listExecutions(Database& db, const Scope& scope,
                                                     const ListQuery& query) {
  Statement row = TRY(db.use(listSql(scope, query)));
  const uint64_t before = query.before_seq == 0 ? uint64_t{INT64_MAX} : query.before_seq;
  row.bind(std::min(before, uint64_t{INT64_MAX}));
  const auto& tenant = scope.tenant();
  if (tenant) row.bind(*tenant);
  if (query.status) row.bind(model::statusName(*query.status));
  if (!query.agent.empty()) row.bind(query.agent);
  if (!query.session_id.empty()) row.bind(query.session_id);
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Execution> out;
  while (TRY(row.step()))
    out.push_back(std::move(TRY(readRecord(row)).execution));
  return out;
}

Result<std::vector<Pending>> unfinishedExecutions(Database& db) {
  Statement row = TRY(db.use(kUnfinished));
  std::vector<Pending> out;
  while (TRY(row.step())) {
    out.push_back({.execution = std::move(TRY(readRecord(row)).execution),
                   .request_json = row.text(3),
                   .spec = row.text(4)});
  }
  return out;
}

Result<std::vector<model::AuditEntry>> readAudit(Database& db, const Scope& scope, uint64_t after,
                                                 uint32_t limit) {
  const uint64_t from = std::min(after, uint64_t{INT64_MAX});
  const auto& tenant = scope.tenant();
  Statement row = TRY(db.use(tenant ? kAuditOfTenant : kAudit));
  if (tenant) row.bind(*tenant);
  row.bind(from, std::clamp(limit, 1U, kMaxAudit));
  return readAuditRows(db, row);
}

namespace {

std::vector<model::AuditEntry> readRows(Statement& row, std::optional<Error>& trouble) {
  std::vector<model::AuditEntry> out;
  for (;;) {
    // What was read before the trouble is given first; the next call meets it at its front.
    const auto more = row.step();
    if (!more && out.empty()) trouble = more.error();
    if (!more || !*more) return out;
    auto entry = readEntry(row);
    if (!entry && out.empty()) trouble = std::move(entry).error();
    if (!entry) return out;
    out.push_back(*std::move(entry));
  }
}

}  // namespace

Result<std::vector<model::AuditEntry>> readAuditRows(Database& db, Statement& row) {
  std::optional<Error> trouble;
  std::vector<model::AuditEntry> entries = readRows(row, trouble);
  if (trouble) return std::unexpected(*std::move(trouble));
  TRY(addSealed(db, entries));
  return entries;
}

}  // namespace cloister::store
