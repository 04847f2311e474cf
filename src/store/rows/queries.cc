// SPDX-License-Identifier: Apache-2.0
#include "store/rows/queries.h"

#include <algorithm>

#include "base/crypto.h"
#include "store/records/escalation_record.h"
#include "store/records/session_record.h"
#include "store/rows/executions.h"
#include "store/rows/image_bindings.h"
#include "store/rows/proof.h"
#include "store/rows/sealed.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kGet[] =
    "SELECT seq, record, archived_at FROM plain_executions WHERE id=?1 AND (?2 IS NULL OR "
    "tenant=?2) AND (?3 IS NULL OR agent=?3)";
constexpr char kRecorded[] =
    "SELECT seq, legible(encrypted, tenant, 'record ' || id, record), archived_at, accepted_row,"
    " state_row FROM executions WHERE id=?1 AND (?2 IS NULL OR tenant=?2)"
    " AND (?3 IS NULL OR agent=?3)";
constexpr char kApproval[] =
    "SELECT record, state_row FROM plain_escalations WHERE execution=?1 AND tenant=?2"
    " ORDER BY seq DESC LIMIT 1";
constexpr char kApprovalById[] =
    "SELECT record, state_row FROM plain_escalations WHERE id=?1 AND tenant=?2";
constexpr char kPendingSession[] =
    "SELECT seq, record, state_row FROM plain_sessions WHERE id=?1 AND status='blocked'"
    " AND (?2 IS NULL OR tenant=?2) AND (?3 IS NULL OR agent=?3)";
constexpr char kUnfinished[] =
    "SELECT e.seq, e.record, e.archived_at,"
    " legible(r.encrypted, e.tenant, 'request ' || e.id, r.body),"
    " legible(s.encrypted, e.tenant, 'spec ' || e.id, s.spec) FROM plain_executions e"
    " LEFT JOIN requests r ON r.execution=e.seq LEFT JOIN specs s ON s.execution=e.seq"
    " WHERE e.finished_at=0 ORDER BY e.seq";
constexpr char kAudit[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash,"
    " ifnull(number, seq) FROM audit WHERE seq>? ORDER BY seq LIMIT ?";
constexpr char kAuditOfTenant[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash,"
    " ifnull(number, seq) FROM audit WHERE tenant=? AND ifnull(number, seq)>?"
    " ORDER BY ifnull(number, seq) LIMIT ?";

constexpr uint32_t kMaxList = 500;
constexpr uint32_t kMaxAudit = 1000;

// One statement for each combination of filters, so that each statement uses the index for its
// filters. A session's index goes before the agent's, and the agent's before the index by status,
// which has rows of other agents. Only rows of the page are decrypted.
std::string listSql(const Scope& scope, const ListQuery& query) {
  std::string sql =
      "SELECT seq, record, archived_at FROM plain_executions WHERE seq IN"
      " (SELECT seq FROM executions WHERE seq<?";
  if (scope.tenant()) sql += " AND tenant=?";
  const bool by_session = !query.session_id.empty();
  if (scope.agent()) sql += by_session ? " AND +agent=?" : " AND agent=?";
  if (query.status) sql += scope.agent() ? " AND +status=?" : " AND status=?";
  if (!query.agent.empty()) sql += " AND agent=?";
  if (by_session) sql += " AND session_id<>'' AND session_id=?";
  return sql + " ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC";
}

std::unexpected<Error> noExecution(const std::string& id) {
  return fail(Code::kNotFound, "there is no execution " + id);
}

Result<model::AuditEntry> entryAt(Database& db, int64_t position) {
  Statement row = TRY(db.use(kAudit));
  if (TRY(row.bind(position - 1, 1).step())) {
    model::AuditEntry entry = TRY(readEntry(row));
    if (entry.position == static_cast<uint64_t>(position)) return entry;
  }
  return fail(Code::kInternal, "audit entry " + std::to_string(position) + " is missing");
}

// The escalation of an execution that shares another execution's escalation; the escalation's own
// record names the other execution. "" for none.
std::string sharedEscalation(const model::Execution& execution, const model::AuditEntry& accepted) {
  if (!execution.provenance.approval.empty()) return execution.provenance.approval;
  if (!execution.error || accepted.event.action != "execution.blocked") return {};
  const base::json::value* id = execution.error->details.if_contains("escalation_id");
  return id != nullptr && id->is_string() ? std::string(id->get_string()) : "";
}

Result<std::optional<model::Escalation>> provenApproval(Database& db,
                                                        const model::Execution& execution,
                                                        const std::string& shared) {
  Statement row = TRY(db.use(shared.empty() ? kApproval : kApprovalById));
  row.bind(shared.empty() ? execution.id : shared, execution.principal.tenant);
  if (!TRY(row.step())) return std::optional<model::Escalation>();
  model::Escalation e = TRY(decodeEscalation(row.text(0)));
  const model::AuditEntry state = TRY(entryAt(db, row.integer(1)));
  TRY(proveRecord(e.id, model::statusName(e.status), row.text(0), state));
  return e;
}

// The entry that binds the execution's image digest.
Result<model::AuditEntry> provenImage(Database& db, const model::Execution& execution,
                                      uint64_t position) {
  model::AuditEntry entry = TRY(entryAt(db, static_cast<int64_t>(position)));
  const std::string& digest = execution.provenance.image_digest;
  TRY(proveEntry(digest, entry));
  if (bindsImage(entry, execution.id, digest)) return entry;
  return fail(Code::kConflict, "the image digest of " + execution.id + " is not the one of " +
                                   nameOf(entry) + "; see `cloister audit verify`");
}

}  // namespace

Result<model::Execution> getExecution(Database& db, const Scope& scope, const std::string& id) {
  // Reads record and output from one snapshot, because retention may run between two reads.
  TRY(db.runKept("BEGIN"));
  auto read = [&]() -> Result<model::Execution> {
    Statement row = TRY(db.use(kGet));
    if (!TRY(row.bind(id, scope.tenant(), scope.agent()).step())) return noExecution(id);
    Record record = TRY(readRecord(row));
    TRY(addOutput(db, record.execution));
    TRY(addImage(db, record.execution));
    return std::move(record.execution);
  }();
  TRY(db.runKept("COMMIT"));
  return read;
}

Result<Recorded> recordedExecution(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kRecorded));
  if (!TRY(row.bind(id, scope.tenant(), scope.agent()).step())) return noExecution(id);
  model::AuditEntry state = TRY(entryAt(db, row.integer(4)));
  auto read = readRecord(row);
  if (!read) {
    return fail(Code::kConflict, "the record of " + id + " is not the one of " + nameOf(state) +
                                     ": it cannot be read; see `cloister audit verify`");
  }
  Record record = *std::move(read);
  Recorded recorded{.execution = std::move(record.execution),
                    .accepted = TRY(entryAt(db, row.integer(3))),
                    .state = std::move(state),
                    .approval = {}};
  TRY(proveEntry(id, recorded.accepted));
  TRY(proveRecord(id, model::statusName(recorded.execution.status), row.text(1), recorded.state));
  recorded.approval = TRY(provenApproval(db, recorded.execution,
                                         sharedEscalation(recorded.execution, recorded.accepted)));
  if (const uint64_t entry = TRY(addImage(db, recorded.execution)); entry != 0) {
    recorded.image = TRY(provenImage(db, recorded.execution, entry));
  }
  return recorded;
}

Result<std::vector<model::Execution>> listExecutions(Database& db, const Scope& scope,
                                                     const ListQuery& query) {
  Statement row = TRY(db.use(listSql(scope, query)));
  const uint64_t before = query.before_seq == 0 ? uint64_t{INT64_MAX} : query.before_seq;
  row.bind(std::min(before, uint64_t{INT64_MAX}));
  const auto& tenant = scope.tenant();
  if (tenant) row.bind(*tenant);
  if (scope.agent()) row.bind(*scope.agent());
  if (query.status) row.bind(model::statusName(*query.status));
  if (!query.agent.empty()) row.bind(query.agent);
  if (!query.session_id.empty()) row.bind(query.session_id);
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Execution> out;
  while (TRY(row.step())) {
    out.push_back(std::move(TRY(readRecord(row)).execution));
    TRY(addImage(db, out.back()));
  }
  return out;
}

Result<PendingSession> pendingSessionRow(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kPendingSession));
  if (!TRY(row.bind(id, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no blocked session " + id);
  }
  SessionRecord record = TRY(decodeSession(row.text(1)));
  record.session.seq = row.natural(0);
  const model::AuditEntry accepted = TRY(entryAt(db, row.integer(2)));
  TRY(proveRecord(id, model::statusName(record.session.status), row.text(1), accepted));
  const base::json::value* digest = accepted.event.details.if_contains("request_sha256");
  if (digest == nullptr || *digest != base::json::string(base::sha256Hex(record.request))) {
    return fail(Code::kConflict, "the request of " + id + " is not the one of " + nameOf(accepted) +
                                     "; see `cloister audit verify`");
  }
  return PendingSession{std::move(record.session), std::move(record.request)};
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
    // Returns the entries before the error; the next call fails with the error.
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

namespace {

// The SQL of the entries' number for readers of `scope` (numberFor()).
std::string numberSql(const Scope& scope) {
  return scope.tenant() ? "ifnull(number, seq)" : "seq";
}

// Four statements in all; the conditions after the tenant's are of a few thousand entries.
std::string searchSql(const Scope& scope, const AuditSearch& search) {
  const std::string number = numberSql(scope);
  std::string sql =
      "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash,"
      " ifnull(number, seq) FROM audit WHERE " +
      number + ">?1 AND " + number +
      "<?2 AND at>=?3 AND at<?4"
      " AND (?5='' OR action GLOB ?5) AND (?6='' OR user=?6 OR key_id=?6)"
      " AND (?7='' OR agent=?7) AND (?8='' OR subject=?8)"
      " AND (?9='' OR subject=?9 OR instr(details, ?9))";
  if (scope.tenant()) sql += " AND tenant=?11";
  return sql + " ORDER BY " + number + (search.newest_first ? " DESC LIMIT ?10" : " LIMIT ?10");
}

bool isFiltered(const AuditSearch& search) {
  return !search.action.empty() || !search.by.empty() || !search.agent.empty() ||
         !search.subject.empty() || !search.execution.empty() || search.since > 0 ||
         search.until < INT64_MAX;
}

// The part of the log for one search step; `ends`: nothing is beyond the window.
struct Window {
  uint64_t after;
  uint64_t before;
  bool ends;
};

Result<uint64_t> newestNumber(Database& db, const Scope& scope) {
  const std::string number = numberSql(scope);
  Statement row =
      TRY(db.use("SELECT " + number + " FROM audit" + (scope.tenant() ? " WHERE tenant=?" : "") +
                 " ORDER BY " + number + " DESC LIMIT 1"));
  if (scope.tenant()) row.bind(*scope.tenant());
  return TRY(row.step()) ? row.natural(0) : uint64_t{0};
}

Result<Window> windowOf(Database& db, const Scope& scope, const AuditSearch& search) {
  const uint64_t newest = TRY(newestNumber(db, scope));
  Window window{.after = search.after, .before = std::min(search.before, newest + 1), .ends = true};
  const bool large =
      window.before > window.after && window.before - window.after > AuditSearch::kLookedAt;
  if (!large || !isFiltered(search)) return window;
  window.ends = false;
  if (search.newest_first) {
    window.after = window.before - AuditSearch::kLookedAt;
  } else {
    window.before = window.after + AuditSearch::kLookedAt;
  }
  return window;
}

}  // namespace

Result<AuditPage> searchAudit(Database& db, const Scope& scope, const AuditSearch& search) {
  const Window window = TRY(windowOf(db, scope, search));
  const uint32_t limit = std::clamp(search.limit, 1U, kMaxAudit);
  Statement row = TRY(db.use(searchSql(scope, search)));
  row.bind(window.after, window.before, search.since, search.until, search.action, search.by,
           search.agent, search.subject, search.execution, limit);
  if (scope.tenant()) row.bind(*scope.tenant());
  AuditPage page{.entries = TRY(readAuditRows(db, row)), .next = std::nullopt};
  if (page.entries.size() == limit) {
    page.next = numberFor(scope, page.entries.back());
  } else if (!window.ends) {
    page.next = search.newest_first ? window.after + 1 : window.before - 1;
  }
  return page;
}

Result<std::vector<model::AuditEntry>> readAuditRows(Database& db, Statement& row) {
  std::optional<Error> trouble;
  std::vector<model::AuditEntry> entries = readRows(row, trouble);
  if (trouble) return std::unexpected(*std::move(trouble));
  TRY(addSealed(db, entries));
  return entries;
}

}  // namespace cloister::store
