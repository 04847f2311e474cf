// SPDX-License-Identifier: Apache-2.0
#include "store/rows/sessions.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crypto.h"
#include "model/record_times.h"
#include "store/records/session_record.h"
#include "store/rows/escalation_rows.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kByIdempotencyKey[] =
    "SELECT seq, record FROM plain_sessions"
    " WHERE tenant=? AND app=? AND agent=? AND user=? AND idempotency_key=?";
constexpr char kInsert[] =
    "INSERT INTO sessions(id, status, tenant, app, agent, user, idempotency_key, ended_at,"
    " created_row, state_row, name, record, encrypted) VALUES (?1,?2,?3,?4,?5,?6,?7,0,?8,?9,?10,"
    " encrypt(?3, 'session ' || ?1, ?11), encrypts())";
constexpr char kById[] = "SELECT seq, record FROM plain_sessions WHERE id=?";
constexpr char kUpdate[] =
    "UPDATE sessions SET status=?1, ended_at=?2, state_row=?3,"
    " record=encrypt(tenant, 'session ' || id, ?4), encrypted=encrypts() WHERE seq=?5";
constexpr char kDrop[] =
    "DELETE FROM sessions WHERE seq IN (SELECT seq FROM sessions"
    " WHERE ended_at>0 AND ended_at<=? ORDER BY ended_at, seq LIMIT ?)";
constexpr char kGet[] =
    "SELECT seq, record FROM plain_sessions WHERE id=?1 AND (?2 IS NULL OR tenant=?2)"
    " AND (?3 IS NULL OR agent=?3)";
// The caller's own first, then a session that has not ended, then the newest.
constexpr char kNamed[] =
    "SELECT id FROM sessions WHERE name=?1 AND (?2 IS NULL OR tenant=?2)"
    " AND (?3 IS NULL OR agent=?3)"
    " ORDER BY tenant=?4 AND agent=?5 DESC, ended_at=0 DESC, seq DESC LIMIT 1";
constexpr char kUnfinished[] =
    "SELECT seq, record FROM plain_sessions WHERE ended_at=0 ORDER BY seq";
constexpr uint32_t kMaxList = 500;

// Reads a row with (seq, record) first.
Result<SessionRecord> readRow(const Statement& row) {
  auto record = decodeSession(row.text(1));
  if (!record) {
    return std::unexpected(
        std::move(record).error().within("session number " + std::to_string(row.integer(0))));
  }
  record->session.seq = row.natural(0);
  return record;
}

// Binds the record into the audit row, so that verification can check the record.
Result<uint64_t> appendState(Transaction tx, model::AuditEvent event, const model::Session& session,
                             const std::string& text) {
  event.subject = session.id;
  event.details["status"] = model::statusName(session.status);
  event.details["record_sha256"] = base::sha256Hex(text);
  return tx.chain.append(tx.db, event);
}

}  // namespace

Result<std::optional<model::Session>> earlierSession(Database& db, const NewSession& request,
                                                     const std::string& request_sha256) {
  const model::Principal& who = request.session.principal;
  if (request.idempotency_key.empty()) return std::nullopt;
  Statement row = TRY(db.use(kByIdempotencyKey));
  row.bind(who.tenant, who.app, who.agent, who.user, request.idempotency_key);
  if (!TRY(row.step())) return std::nullopt;
  SessionRecord earlier = TRY(readRow(row));
  if (earlier.request_sha256 == request_sha256) return std::move(earlier.session);
  return fail(Code::kConflict, "creating the session: its idempotency key was used with another",
              "Idempotency-Key");
}

Result<Created> createSession(Transaction tx, const NewSession& request,
                              const model::AuditEvent& event) {
  if (auto earlier = TRY(earlierSession(tx.db, request, request.request_sha256))) {
    return Created{*std::move(earlier), true};
  }
  model::Session session = request.session;
  const model::Principal& who = session.principal;
  const bool blocked = session.status == model::SessionStatus::kBlocked;
  const bool begins = blocked || session.status == model::SessionStatus::kCreating;
  if (session.id.empty() || who.tenant.empty() || !begins) {
    return fail(Code::kInvalid, "creating a session: it has an id and a tenant, and begins so");
  }
  if (request.escalation) {
    const model::Escalation made = TRY(addEscalation(tx, *request.escalation));
    if (session.error) {
      session.error->details["escalation_id"] = made.id;
      session.error->message += " (" + made.id + ")";
    }
  }
  const std::string text =
      encodeSession({session, request.request_sha256, blocked ? request.request_json : ""});
  const uint64_t row = TRY(appendState(tx, event, session, text));
  const std::optional<std::string> key =
      request.idempotency_key.empty() ? std::nullopt : std::optional(request.idempotency_key);
  Statement insert = TRY(tx.db.use(kInsert));
  insert.bind(session.id, model::statusName(session.status), who.tenant, who.app, who.agent,
              who.user, key, row, row, session.name, text);
  TRY(insert.run());
  session.seq = static_cast<uint64_t>(tx.db.lastRowId());
  return Created{std::move(session), false};
}

Result<void> updateSession(Transaction tx, const model::Session& session,
                           const model::AuditEvent& event) {
  Statement found = TRY(tx.db.use(kById));
  if (!TRY(found.bind(session.id).step())) {
    return fail(Code::kNotFound, "updating session " + session.id + ": there is none");
  }
  SessionRecord record = TRY(readRow(found));
  const model::Session& stored = record.session;
  if (!model::mayBecome(stored.status, session.status)) {
    return fail(Code::kConflict, "updating session " + session.id + ": it is " +
                                     std::string(model::statusName(stored.status)) +
                                     " and cannot become " +
                                     std::string(model::statusName(session.status)));
  }
  SessionRecord next{session, record.request_sha256, ""};
  next.session.principal = stored.principal;
  next.session.created_at = stored.created_at;
  const bool ended = session.status == model::SessionStatus::kEnded;
  if (!ended) next.session.ended_at = 0;
  if (ended && next.session.ended_at <= 0) {
    next.session.ended_at = std::max(base::wallMicros(), model::latestTime(next.session));
  }
  const std::string text = encodeSession(next);
  const uint64_t row = TRY(appendState(tx, event, next.session, text));
  Statement update = TRY(tx.db.use(kUpdate));
  return update
      .bind(model::statusName(session.status), next.session.ended_at, row, text, stored.seq)
      .run();
}

Result<uint64_t> dropSessions(Database& db, int64_t ended_by, int limit) {
  Statement drop = TRY(db.use(kDrop));
  TRY(drop.bind(ended_by, limit).run());
  return static_cast<uint64_t>(db.changes());
}

Result<model::Session> getSession(Database& db, const Scope& scope, const std::string& id) {
  Statement row = TRY(db.use(kGet));
  if (!TRY(row.bind(id, scope.tenant(), scope.agent()).step())) {
    return fail(Code::kNotFound, "there is no session " + id);
  }
  return std::move(TRY(readRow(row)).session);
}

Result<std::string> sessionNamed(Database& db, const model::Principal& by,
                                 const std::string& name) {
  const Scope scope = Scope::of(by);
  Statement row = TRY(db.use(kNamed));
  row.bind(name, scope.tenant(), scope.agent(), by.tenant, by.agent);
  if (!TRY(row.step())) return fail(Code::kNotFound, "there is no session " + name);
  return std::string(row.text(0));
}

Result<std::vector<model::Session>> listSessions(Database& db, const Scope& scope,
                                                 const SessionQuery& query) {
  std::string sql =
      "SELECT seq, record FROM plain_sessions WHERE seq IN (SELECT seq FROM sessions WHERE seq<?";
  if (scope.tenant()) sql += " AND tenant=?";
  if (scope.agent()) sql += " AND agent=?";
  if (query.status) sql += scope.agent() ? " AND +status=?" : " AND status=?";
  if (!query.agent.empty()) sql += " AND agent=?";
  Statement row = TRY(db.use(sql + " ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC"));
  const uint64_t before = query.before_seq == 0 ? uint64_t{INT64_MAX} : query.before_seq;
  row.bind(std::min(before, uint64_t{INT64_MAX}));
  if (scope.tenant()) row.bind(*scope.tenant());
  if (scope.agent()) row.bind(*scope.agent());
  if (query.status) row.bind(model::statusName(*query.status));
  if (!query.agent.empty()) row.bind(query.agent);
  row.bind(std::clamp(query.limit, 1U, kMaxList));
  std::vector<model::Session> out;
  while (TRY(row.step()))
    out.push_back(std::move(TRY(readRow(row)).session));
  return out;
}

Result<std::vector<model::Session>> unfinishedSessionRows(Database& db) {
  Statement row = TRY(db.use(kUnfinished));
  std::vector<model::Session> out;
  while (TRY(row.step()))
    out.push_back(std::move(TRY(readRow(row)).session));
  return out;
}

}  // namespace cloister::store
