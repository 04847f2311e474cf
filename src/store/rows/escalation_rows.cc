// SPDX-License-Identifier: Apache-2.0
#include "store/rows/escalation_rows.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/crypto.h"
#include "store/records/escalation_record.h"
#include "store/rows/executions.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kCountPending[] =
    "SELECT count(*) FROM escalations WHERE tenant=? AND status='pending'";
constexpr char kNumber[] =
    "INSERT INTO escalation_numbers VALUES (?,?,1)"
    " ON CONFLICT(tenant, year) DO UPDATE SET last=last+1 RETURNING last";
constexpr char kInsert[] =
    "INSERT INTO escalations(id, tenant, status, agent, execution, due_at, ended_at, record,"
    " created_row, state_row, encrypted) VALUES (?1,?2,?3,?4,?5,?6,?7,"
    " encrypt(?2, 'escalation ' || ?1, ?8),?9,?10, encrypts())";
constexpr char kFind[] = "SELECT seq, record FROM plain_escalations WHERE tenant=? AND id=?";
constexpr char kUpdate[] =
    "UPDATE escalations SET status=?1, execution=?2, due_at=?3, waited=?4, ended_at=?5,"
    " record=encrypt(tenant, 'escalation ' || id, ?6), encrypted=encrypts(), state_row=?7"
    " WHERE seq=?8";
constexpr char kInsertAsked[] =
    "INSERT INTO escalation_requests(escalation, encrypted, body) SELECT seq, encrypts(),"
    " encrypt(tenant, 'escalation request ' || id, ?2) FROM escalations WHERE seq=?1";
constexpr char kAsked[] =
    "SELECT decrypted(r.encrypted, e.tenant, 'escalation request ' || e.id, r.body)"
    " FROM escalations e JOIN escalation_requests r ON r.escalation=e.seq"
    " WHERE e.tenant=?1 AND e.id=?2"
    " UNION ALL"
    " SELECT decrypted(q.encrypted, x.tenant, 'request ' || x.id, q.body)"
    " FROM executions x JOIN requests q ON q.execution=x.seq WHERE x.tenant=?1 AND x.id=?3";
constexpr char kInsertWorkspace[] =
    "INSERT INTO escalation_workspaces(escalation, encrypted, body) SELECT seq, encrypts(),"
    " encrypt(tenant, 'escalation workspace ' || id, ?2) FROM escalations WHERE seq=?1";
constexpr char kWorkspace[] =
    "SELECT decrypted(w.encrypted, e.tenant, 'escalation workspace ' || e.id, w.body)"
    " FROM escalations e JOIN escalation_workspaces w ON w.escalation=e.seq"
    " WHERE e.tenant=? AND e.id=?";
constexpr char kPutPolicy[] = "INSERT OR REPLACE INTO escalation_policies VALUES (?,?,?)";
constexpr char kGetPolicy[] = "SELECT record FROM escalation_policies WHERE tenant=? AND agent=?";
constexpr char kCountNotifications[] = "SELECT count(*) FROM notifications";
constexpr char kNotify[] =
    "INSERT INTO notifications(channel, tenant, escalation, event, attempts, created_at, due_at)"
    " VALUES (?,?,?,?,0,?,?)";
constexpr char kFinish[] = "DELETE FROM notifications WHERE seq=?";
constexpr char kRetry[] = "UPDATE notifications SET attempts=attempts+1, due_at=? WHERE seq=?";
constexpr char kDueNotifications[] =
    "SELECT seq, channel, tenant, escalation, event, attempts, created_at, due_at"
    " FROM notifications WHERE (?1='' OR channel=?1) AND due_at<=?2 ORDER BY due_at, seq LIMIT ?3";
constexpr char kDue[] =
    "SELECT seq, record FROM plain_escalations WHERE due_at>0 AND due_at<=? ORDER BY due_at LIMIT "
    "?";
constexpr char kDrop[] =
    "DELETE FROM escalations WHERE seq IN (SELECT seq FROM escalations"
    " WHERE ended_at>0 AND ended_at<=? ORDER BY ended_at, seq LIMIT ?)";
constexpr char kById[] =
    "SELECT seq, record FROM plain_escalations WHERE id=?1 AND (?2 IS NULL OR tenant=?2)"
    " AND (?3 IS NULL OR agent=?3) LIMIT 2";
constexpr char kOfExecution[] =
    "SELECT seq, record FROM plain_escalations WHERE execution=?1 AND execution<>''"
    " AND (?2 IS NULL OR tenant=?2) AND (?3 IS NULL OR agent=?3) ORDER BY seq DESC LIMIT 1";
constexpr char kUsualWait[] =
    "SELECT count(*), avg(waited) FROM (SELECT waited FROM escalations"
    " WHERE (?1 IS NULL OR tenant=?1) AND waited IS NOT NULL ORDER BY seq DESC LIMIT 50)";
constexpr char kPending[] =
    "SELECT e.seq, e.record, e.archived_at,"
    " decrypted(r.encrypted, e.tenant, 'request ' || e.id, r.body),"
    " decrypted(s.encrypted, e.tenant, 'spec ' || e.id, s.spec) FROM plain_executions e"
    " JOIN requests r ON r.execution=e.seq JOIN specs s ON s.execution=e.seq"
    " WHERE e.id=?1 AND e.finished_at=0 AND (?2 IS NULL OR e.tenant=?2)"
    " AND (?3 IS NULL OR e.agent=?3)";
constexpr uint32_t kMaxList = 500;

int yearOf(int64_t wall_micros) {
  using namespace std::chrono;
  const auto day = floor<days>(sys_time<microseconds>(microseconds(wall_micros)));
  return static_cast<int>(year_month_day(day).year());
}

Result<model::Escalation> readRow(const Statement& row) {
  auto escalation = decodeEscalation(row.text(1));
  if (escalation) escalation->seq = row.natural(0);
  return escalation;
}

Result<std::vector<model::Escalation>> readRows(Statement& row) {
  std::vector<model::Escalation> out;
  while (TRY(row.step()))
    out.push_back(TRY(readRow(row)));
  return out;
}

// One row per channel. Notifications beyond `most` are left out: a full queue must not prevent the
// record of a person's decision, or of a run waiting for the decision.
Result<uint64_t> addNotifications(Database& db, const model::Escalation& about,
                                  const std::vector<std::string>& channels,
                                  const std::string& event, uint32_t most) {
  uint64_t left_out = 0;
  for (const std::string& channel : channels) {
    Statement count = TRY(db.use(kCountNotifications));
    TRY(count.step());
    if (count.natural(0) >= most) {
      left_out++;
      continue;
    }
    const int64_t now = base::wallMicros();
    Statement add = TRY(db.use(kNotify));
    TRY(add.bind(channel, about.requester.tenant, about.id, event, now, now).run());
  }
  return left_out;
}

// Binds the record into the audit row.
model::AuditEvent bindTo(model::AuditEvent event, const model::Escalation& e,
                         const std::string& record, uint64_t left_out) {
  event.subject = e.id;
  event.details["status"] = model::statusName(e.status);
  event.details["record_sha256"] = base::sha256Hex(record);
  if (left_out > 0) event.details["notifications_left_out"] = left_out;
  return event;
}

// A pending escalation needs a decision, like a new escalation.
std::string newsOf(model::EscalationStatus status) {
  if (status == model::EscalationStatus::kPending) return "escalation.requested";
  return "escalation." + std::string(model::statusName(status));
}

Result<> keepText(Database& db, const char* insert, uint64_t escalation, const std::string& text) {
  if (text.empty()) return {};
  Statement add = TRY(db.use(insert));
  return add.bind(escalation, text).run();
}

// Checks the text against the digest in the record, which an entry of the log binds.
Result<std::string> asRecorded(std::string text, const std::string& sha256, const std::string& id,
                               const char* what) {
  if (base::sha256Hex(text) == sha256) return text;
  return fail(Code::kConflict,
              "what the ledger has of " + id + " is not " + what + "; see `cloister audit verify`");
}

std::optional<std::string> waitedOf(const model::Escalation& e) {
  const bool by_person = std::ranges::any_of(
      e.decisions, [](const model::EscalationDecision& each) { return !each.automatic; });
  if (!by_person || e.decided_at == 0) return std::nullopt;
  return std::to_string(e.decided_at - e.created_at);
}

}  // namespace

Result<model::Escalation> addEscalation(Transaction tx, const NewEscalation& asked) {
  model::Escalation e = asked.escalation;
  const std::string& tenant = e.requester.tenant;
  Statement pending = TRY(tx.db.use(kCountPending));
  TRY(pending.bind(tenant).step());
  if (pending.natural(0) >= asked.bounds.pending_per_tenant) {
    return fail(Code::kQuota,
                "asking for approval: " + std::to_string(asked.bounds.pending_per_tenant) +
                    " requests of the tenant wait for one; have some decided, or "
                    "raise escalation.pending_per_tenant");
  }
  Statement number = TRY(tx.db.use(kNumber));
  TRY(number.bind(tenant, yearOf(e.created_at)).step());
  e.id = model::escalationId(yearOf(e.created_at), number.natural(0));
  TRY(number.run());
  const std::string record = encodeEscalation(e);
  const uint64_t left_out = TRY(addNotifications(tx.db, e, asked.channels, "escalation.requested",
                                                 asked.bounds.notifications));
  const uint64_t audit_row = TRY(tx.chain.append(tx.db, bindTo(asked.event, e, record, left_out)));
  const uint64_t state_row =
      asked.approval ? TRY(tx.chain.append(tx.db, bindTo(*asked.approval, e, record, 0)))
                     : audit_row;
  Statement insert = TRY(tx.db.use(kInsert));
  TRY(insert
          .bind(e.id, tenant, model::statusName(e.status), e.requester.agent, e.execution_id,
                e.dueAt(), e.ended_at, record, audit_row, state_row)
          .run());
  e.seq = static_cast<uint64_t>(tx.db.lastRowId());
  TRY(keepText(tx.db, kInsertAsked, e.seq, asked.request_json));
  TRY(keepText(tx.db, kInsertWorkspace, e.seq, asked.workspace_json));
  return e;
}

Result<model::Escalation> changeEscalation(Transaction tx, const EscalationChange& change) {
  model::Escalation e;
  {
    Statement found = TRY(tx.db.use(kFind));
    if (!TRY(found.bind(change.tenant, change.id).step())) {
      return fail(Code::kNotFound, "there is no escalation " + change.id);
    }
    e = TRY(readRow(found));
  }
  const model::EscalationStatus before = e.status;
  const model::AuditEvent event = TRY(change.apply(e));
  if (!model::mayBecome(before, e.status)) {
    return fail(Code::kConflict,
                "escalation " + e.id + " is " + std::string(model::statusName(before)) +
                    " and cannot become " + std::string(model::statusName(e.status)));
  }
  const std::string record = encodeEscalation(e);
  // A vote that settles nothing is not notified.
  const bool settled = before != e.status && !change.notification.empty();
  const uint64_t left_out =
      settled
          ? TRY(addNotifications(tx.db, e, change.channels, newsOf(e.status), change.notifications))
          : 0;
  const uint64_t audit_row = TRY(tx.chain.append(tx.db, bindTo(event, e, record, left_out)));
  Statement update = TRY(tx.db.use(kUpdate));
  TRY(update
          .bind(model::statusName(e.status), e.execution_id, e.dueAt(), waitedOf(e), e.ended_at,
                record, audit_row, e.seq)
          .run());
  return e;
}

Result<model::Escalation> changeEscalationWith(Transaction tx, const EscalationChange& change,
                                               const model::Execution& execution,
                                               const model::AuditEvent& event) {
  model::Escalation changed = TRY(changeEscalation(tx, change));
  TRY(updateExecution(tx, execution, event));
  return changed;
}

Result<void> putEscalationPolicy(Transaction tx, const std::string& tenant,
                                 const model::EscalationPolicy& policy,
                                 const model::AuditEvent& event) {
  const std::string record = encodeEscalationPolicy(policy);
  Statement put = TRY(tx.db.use(kPutPolicy));
  TRY(put.bind(tenant, policy.agent, record).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> finishNotification(Transaction tx, uint64_t seq,
                                const std::optional<model::AuditEvent>& event) {
  Statement finish = TRY(tx.db.use(kFinish));
  TRY(finish.bind(seq).run());
  if (event) TRY(tx.chain.append(tx.db, *event));
  return {};
}

Result<void> retryNotification(Transaction tx, uint64_t seq, int64_t due_at) {
  Statement retry = TRY(tx.db.use(kRetry));
  return retry.bind(due_at, seq).run();
}

Result<uint64_t> dropEscalations(Database& db, int64_t before, uint64_t limit) {
  Statement drop = TRY(db.use(kDrop));
  TRY(drop.bind(before, limit).run());
  return static_cast<uint64_t>(db.changes());
}

Result<model::Escalation> getEscalation(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kById));
  if (!TRY(row.bind(id, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no escalation " + id);
  }
  auto found = TRY(readRow(row));
  if (TRY(row.step())) {
    return fail(Code::kConflict, id + " is an escalation of several tenants; say which",
                "query.tenant");
  }
  return found;
}

Result<std::map<model::EscalationStatus, uint64_t>> countEscalations(Database& db) {
  Statement rows = TRY(db.use("SELECT status, count(*) FROM escalations GROUP BY status"));
  std::map<model::EscalationStatus, uint64_t> counts;
  while (TRY(rows.step())) {
    if (const auto status = model::escalationStatusFromName(rows.text(0)))
      counts[*status] = static_cast<uint64_t>(rows.integer(1));
  }
  return counts;
}

Result<std::vector<model::Escalation>> listEscalations(Database& db, const Scope& scope,
                                                       const EscalationQuery& query) {
  std::string sql =
      "SELECT seq, record FROM plain_escalations WHERE seq IN"
      " (SELECT seq FROM escalations WHERE seq<?";
  if (scope.tenant()) sql += " AND tenant=?";
  if (scope.agent()) sql += " AND agent=?";
  if (query.status) sql += scope.agent() ? " AND +status=?" : " AND status=?";
  if (!query.agent.empty()) sql += " AND agent=?";
  sql += " ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC";
  Statement row = TRY(db.use(sql));
  row.bind(query.before_seq == 0
               ? INT64_MAX
               : static_cast<int64_t>(std::min(query.before_seq, uint64_t{INT64_MAX})));
  if (scope.tenant()) row.bind(*scope.tenant());
  if (scope.agent()) row.bind(*scope.agent());
  if (query.status) row.bind(model::statusName(*query.status));
  if (!query.agent.empty()) row.bind(query.agent);
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  return readRows(row);
}

Result<std::optional<model::Escalation>> escalationOfExecution(Database& db, const Scope& scope,
                                                               const std::string& execution_id) {
  Statement row = TRY(db.use(kOfExecution));
  if (!TRY(row.bind(execution_id, scope.tenant(), scope.agent()).step())) return std::nullopt;
  return TRY(readRow(row));
}

Result<std::optional<int64_t>> usualWait(Database& db, const Scope& scope) {
  constexpr int64_t kMicros = 1'000'000;
  Statement row = TRY(db.use(kUsualWait));
  TRY(row.bind(scope.tenant()).step());
  if (row.integer(0) == 0) return std::nullopt;
  return row.integer(1) / kMicros;
}

Result<model::EscalationPolicy> getEscalationPolicy(Database& db, const std::string& tenant,
                                                    const std::string& agent) {
  Statement row = TRY(db.use(kGetPolicy));
  if (TRY(row.bind(tenant, agent).step())) return decodeEscalationPolicy(row.text(0));
  return model::EscalationPolicy{.agent = agent};
}

Result<std::vector<model::Escalation>> dueEscalationRows(Database& db, int64_t now,
                                                         uint32_t limit) {
  Statement row = TRY(db.use(kDue));
  row.bind(now, limit);
  return readRows(row);
}

Result<std::vector<Notification>> dueNotificationRows(Database& db, const std::string& channel,
                                                      int64_t now, uint32_t limit) {
  Statement row = TRY(db.use(kDueNotifications));
  row.bind(channel, now, limit);
  std::vector<Notification> out;
  while (TRY(row.step())) {
    out.push_back({.seq = row.natural(0),
                   .channel = row.text(1),
                   .tenant = row.text(2),
                   .escalation = row.text(3),
                   .event = row.text(4),
                   .attempts = static_cast<uint32_t>(row.integer(5)),
                   .created_at = row.integer(6),
                   .due_at = row.integer(7)});
  }
  return out;
}

Result<std::string> getEscalationRequest(Database& db, const model::Escalation& e) {
  Statement row = TRY(db.use(kAsked));
  if (!TRY(row.bind(e.requester.tenant, e.id, e.execution_id).step())) {
    return fail(Code::kNotFound, "what " + e.id + " asks for is not kept any more");
  }
  return asRecorded(row.text(0), e.request_sha256, e.id, "what was asked for");
}

Result<std::string> getEscalationWorkspace(Database& db, const model::Escalation& e) {
  Statement row = TRY(db.use(kWorkspace));
  if (!TRY(row.bind(e.requester.tenant, e.id).step())) {
    return fail(Code::kNotFound, "what the workspace had in it for " + e.id + " is not kept");
  }
  return asRecorded(row.text(0), e.workspace_sha256, e.id, "what its workspace had in it");
}

Result<Pending> getPending(Database& db, const Scope& scope, const std::string& execution_id) {
  Statement row = TRY(db.use(kPending));
  if (!TRY(row.bind(execution_id, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no unfinished execution " + execution_id);
  }
  return Pending{.execution = std::move(TRY(readRecord(row)).execution),
                 .request_json = row.text(3),
                 .spec = row.text(4)};
}

}  // namespace cloister::store
