// SPDX-License-Identifier: Apache-2.0
#include "store/rows/executions.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crypto.h"
#include "model/record_times.h"
#include "store/rows/artifacts.h"
#include "store/rows/escalation_rows.h"
#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kByIdempotencyKey[] =
    "SELECT seq, record, archived_at FROM plain_executions"
    " WHERE tenant=? AND app=? AND agent=? AND user=? AND idempotency_key=?";
constexpr char kInsert[] =
    "INSERT INTO executions(id, status, tenant, app, agent, user, session_id, idempotency_key,"
    " request_sha256, finished_at, accepted_row, state_row, record, encrypted)"
    " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12, encrypt(?3, 'record ' || ?1, ?13),"
    " encrypts())";
constexpr char kInsertRequest[] =
    "INSERT INTO requests(execution, body, encrypted)"
    " SELECT seq, encrypt(tenant, 'request ' || id, ?2), encrypts() FROM executions WHERE seq=?1";
constexpr char kInsertSpec[] =
    "INSERT INTO specs(execution, spec, encrypted)"
    " SELECT seq, encrypt(tenant, 'spec ' || id, ?2), encrypts() FROM executions WHERE seq=?1";
constexpr char kDropSpec[] = "DELETE FROM specs WHERE execution=?";
constexpr char kById[] = "SELECT seq, record, archived_at FROM plain_executions WHERE id=?";
constexpr char kUpdate[] =
    "UPDATE executions SET status=?1, finished_at=?2, state_row=?3,"
    " record=encrypt(tenant, 'record ' || id, ?4), encrypted=encrypts() WHERE seq=?5";
constexpr char kPutOutput[] =
    "INSERT OR REPLACE INTO outputs(execution, out, err, compile_out, compile_err, encrypted)"
    " SELECT seq, encrypt(tenant, 'out ' || id, ?2), encrypt(tenant, 'err ' || id, ?3),"
    " encrypt(tenant, 'compile_out ' || id, ?4), encrypt(tenant, 'compile_err ' || id, ?5),"
    " encrypts() FROM executions WHERE seq=?1";
constexpr char kReadOutput[] =
    "SELECT decrypted(o.encrypted, e.tenant, 'out ' || e.id, o.out),"
    " decrypted(o.encrypted, e.tenant, 'err ' || e.id, o.err),"
    " decrypted(o.encrypted, e.tenant, 'compile_out ' || e.id, o.compile_out),"
    " decrypted(o.encrypted, e.tenant, 'compile_err ' || e.id, o.compile_err)"
    " FROM outputs o JOIN executions e ON e.seq=o.execution WHERE o.execution=?";

// Binds the record into the audit row, so that verification can check the record.
model::AuditEvent bindTo(const model::AuditEvent& event, const model::Execution& execution,
                         const std::string& record) {
  model::AuditEvent bound = event;
  bound.subject = execution.id;
  bound.details["status"] = model::statusName(execution.status);
  bound.details["record_sha256"] = base::sha256Hex(record);
  return bound;
}

Result<> check(const model::Execution& execution) {
  if (execution.id.empty()) return fail(Code::kInvalid, "accepting an execution: it has no id");
  if (execution.principal.tenant.empty()) {
    return fail(Code::kInvalid, "accepting an execution: it has no tenant");
  }
  using enum model::Status;
  const model::Status status = execution.status;
  if (status == kQueued || status == kBlocked || status == kDenied) return {};
  return fail(Code::kInvalid, "accepting an execution: it begins queued, blocked or denied");
}

Result<> checkStart(const NewExecution& request) {
  if (!request.start) return {};
  if (request.execution.status == model::Status::kQueued &&
      request.start->execution.status == model::Status::kRunning &&
      request.start->execution.id == request.execution.id) {
    return {};
  }
  return fail(Code::kInvalid, "accepting an execution: a start makes a queued one run");
}

// Appends the audit row for the state of `record`, and returns its number.
Result<uint64_t> appendState(Transaction tx, const model::AuditEvent& event,
                             const model::Execution& execution, const std::string& record) {
  return tx.chain.append(tx.db, bindTo(event, execution, record));
}

Result<> putOutput(Database& db, const model::Execution& execution) {
  static const model::CompileResult kNone;
  const model::CompileResult& compile = execution.compile ? *execution.compile : kNone;
  if (execution.out.bytes.empty() && execution.err.bytes.empty() && compile.stdout_text.empty() &&
      compile.stderr_text.empty()) {
    return {};
  }
  Statement put = TRY(db.use(kPutOutput));
  return put
      .bind(execution.seq, Blob{execution.out.bytes}, Blob{execution.err.bytes},
            Blob{compile.stdout_text}, Blob{compile.stderr_text})
      .run();
}

// The parts of a finished record besides its row.
Result<> putParts(Database& db, const model::Execution& execution) {
  TRY(putOutput(db, execution));
  return putArtifacts(db, execution);
}

// Gives each finished record a finishing time, which retention needs.
void settleTimes(model::Execution& execution) {
  if (execution.created_at == 0) execution.created_at = base::wallMicros();
  if (!model::isTerminal(execution.status)) {
    execution.finished_at = 0;
  } else if (execution.finished_at <= 0) {
    execution.finished_at = std::max(base::wallMicros(), model::latestTime(execution));
  }
}

// Uses up the request's approval, and adds the request's new escalation, whose id goes into the
// error.
Result<> settleApproval(Transaction tx, const NewExecution& request, model::Execution& e) {
  if (request.approval) TRY(changeEscalation(tx, *request.approval));
  if (!request.escalation) return {};
  const model::Escalation made = TRY(addEscalation(tx, *request.escalation));
  if (!e.error) return {};
  e.error->details["escalation_id"] = made.id;
  e.error->message += " (" + made.id + ")";
  return {};
}

}  // namespace

Result<std::optional<model::Execution>> earlierExecution(Database& db, const NewExecution& request,
                                                         const std::string& request_sha256) {
  const model::Principal& who = request.execution.principal;
  if (request.idempotency_key.empty()) return std::nullopt;
  Statement row = TRY(db.use(kByIdempotencyKey));
  row.bind(who.tenant, who.app, who.agent, who.user, request.idempotency_key);
  if (!TRY(row.step())) return std::nullopt;
  Record earlier = TRY(readRecord(row));
  if (earlier.request_sha256 != request_sha256) {
    return fail(Code::kConflict, "accepting the request: its idempotency key was used with another",
                "Idempotency-Key");
  }
  TRY(addOutput(db, earlier.execution));
  return std::move(earlier.execution);
}

Result<Accepted> acceptExecution(Transaction tx, const NewExecution& request,
                                 const model::AuditEvent& event) {
  if (auto earlier = TRY(earlierExecution(tx.db, request, request.request_sha256))) {
    return Accepted{.execution = *std::move(earlier), .replayed = true};
  }
  TRY(check(request.execution));
  TRY(checkStart(request));
  Record record{.execution = request.execution, .request_sha256 = request.request_sha256};
  model::Execution& e = record.execution;
  settleTimes(e);
  TRY(settleApproval(tx, request, e));
  std::string text = encodeRecord(record);
  const uint64_t accepted_row = TRY(appendState(tx, event, e, text));
  uint64_t state_row = accepted_row;
  if (request.start) {
    const int64_t created_at = e.created_at;
    e = request.start->execution;
    e.created_at = created_at;
    text = encodeRecord(record);
    state_row = TRY(appendState(tx, request.start->event, e, text));
  }
  const std::optional<std::string> key =
      request.idempotency_key.empty() ? std::nullopt : std::optional(request.idempotency_key);
  Statement insert = TRY(tx.db.use(kInsert));
  insert.bind(e.id, model::statusName(e.status), e.principal.tenant, e.principal.app,
              e.principal.agent, e.principal.user, e.session_id, key, request.request_sha256,
              e.finished_at, accepted_row, state_row, text);
  TRY(insert.run());
  e.seq = static_cast<uint64_t>(tx.db.lastRowId());
  Statement body = TRY(tx.db.use(kInsertRequest));
  TRY(body.bind(e.seq, request.request_json).run());
  // A running execution is not started again.
  if (e.status == model::Status::kQueued || e.status == model::Status::kBlocked) {
    Statement spec = TRY(tx.db.use(kInsertSpec));
    TRY(spec.bind(e.seq, Blob{request.spec}).run());
  }
  return Accepted{.execution = std::move(e), .replayed = false};
}

Result<void> updateExecution(Transaction tx, const model::Execution& execution,
                             const model::AuditEvent& event) {
  Statement found = TRY(tx.db.use(kById));
  if (!TRY(found.bind(execution.id).step())) {
    return fail(Code::kNotFound, "updating execution " + execution.id + ": there is none");
  }
  const Record stored = TRY(readRecord(found));
  if (!model::mayBecome(stored.execution.status, execution.status)) {
    return fail(Code::kConflict, "updating execution " + execution.id + ": it is " +
                                     std::string(model::statusName(stored.execution.status)) +
                                     " and cannot become " +
                                     std::string(model::statusName(execution.status)));
  }
  Record record{.execution = execution, .request_sha256 = stored.request_sha256};
  model::Execution& e = record.execution;
  e.seq = stored.execution.seq;
  e.principal = stored.execution.principal;
  e.session_id = stored.execution.session_id;
  e.created_at = stored.execution.created_at;
  settleTimes(e);
  const std::string text = encodeRecord(record);
  const uint64_t row = TRY(appendState(tx, event, e, text));
  Statement update = TRY(tx.db.use(kUpdate));
  TRY(update.bind(model::statusName(e.status), e.finished_at, row, text, e.seq).run());
  if (!model::isTerminal(e.status)) return {};
  Statement drop = TRY(tx.db.use(kDropSpec));
  TRY(drop.bind(e.seq).run());
  return putParts(tx.db, e);
}

Result<Record> readRecord(const Statement& row) {
  auto record = decodeRecord(row.text(1));
  if (!record) {
    return std::unexpected(
        std::move(record).error().within("execution number " + std::to_string(row.integer(0))));
  }
  model::Execution& e = record->execution;
  e.seq = row.natural(0);
  if (row.integer(2) != 0) {  // archived: the bytes are gone
    e.out.truncated = e.out.truncated || e.out.total > 0;
    e.err.truncated = e.err.truncated || e.err.total > 0;
  }
  return record;
}

Result<> addOutput(Database& db, model::Execution& execution) {
  Statement row = TRY(db.use(kReadOutput));
  if (!TRY(row.bind(execution.seq).step())) return {};
  execution.out.bytes = row.text(0);
  execution.err.bytes = row.text(1);
  if (execution.compile) {
    execution.compile->stdout_text = row.text(2);
    execution.compile->stderr_text = row.text(3);
  }
  return {};
}

}  // namespace cloister::store
