// SPDX-License-Identifier: Apache-2.0
#include "store/rows/proof.h"

#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/json.h"
#include "store/records/escalation_record.h"
#include "store/records/record.h"
#include "store/records/session_record.h"
#include "store/rows/image_bindings.h"

namespace cloister::store {
namespace {

// All begin with: seq, id, status, tenant, record, the subject of the audit row of its beginning,
// then of the one of its present state the subject, the details and the number.
constexpr char kExecutionRows[] =
    "SELECT e.seq, e.id, e.status, e.tenant,"
    " legible(e.encrypted, e.tenant, 'record ' || e.id, e.record),"
    " a.subject, b.subject, b.details, b.seq, e.archived_at,"
    " legible(o.encrypted, e.tenant, 'out ' || e.id, o.out),"
    " legible(o.encrypted, e.tenant, 'err ' || e.id, o.err), i.entry, i.digest, c.action, "
    "c.details FROM executions e"
    " LEFT JOIN image_bindings i ON i.execution=e.seq LEFT JOIN audit c ON c.seq=i.entry"
    " LEFT JOIN audit a ON a.seq=e.accepted_row LEFT JOIN audit b ON b.seq=e.state_row"
    " LEFT JOIN outputs o ON o.execution=e.seq WHERE e.seq>? ORDER BY e.seq LIMIT ?";
constexpr char kSessionRows[] =
    "SELECT s.seq, s.id, s.status, s.tenant,"
    " legible(s.encrypted, s.tenant, 'session ' || s.id, s.record), a.subject, b.subject, "
    "b.details, b.seq"
    " FROM sessions s LEFT JOIN audit a ON a.seq=s.created_row"
    " LEFT JOIN audit b ON b.seq=s.state_row WHERE s.seq>? ORDER BY s.seq LIMIT ?";

constexpr char kEscalationsAndRows[] =
    "SELECT e.seq, e.id, e.status, e.tenant,"
    " legible(e.encrypted, e.tenant, 'escalation ' || e.id, e.record),"
    " a.subject, b.subject, b.details, b.seq, e.execution, EXISTS (SELECT 1 FROM audit c WHERE "
    "c.subject=e.id AND c.seq>e.state_row"
    "  AND c.action LIKE 'escalation.%' AND json_extract(c.details, '$.record_sha256') IS NOT NULL"
    "  AND ifnull(json_extract(c.details, '$.of_tenant'), e.tenant)=e.tenant)"
    " FROM escalations e LEFT JOIN audit a ON a.seq=e.created_row"
    " LEFT JOIN audit b ON b.seq=e.state_row WHERE e.seq>? ORDER BY e.seq LIMIT ?";

// Subjects that begin in the log but have no row: their number, and the newest such subject with
// its number in the log. Also the number of records that retention removed.
constexpr char kGoneExecutions[] =
    "SELECT count(*), max(a.seq), a.subject, (SELECT sum(json_extract(r.details, '$.deleted'))"
    "  FROM audit r WHERE r.action='ledger.retained')"
    " FROM audit a WHERE a.action IN ('execution.accepted', 'execution.blocked', "
    "'execution.denied')"
    " AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.id=a.subject)";
constexpr char kGoneSessions[] =
    "SELECT count(*), max(a.seq), a.subject, (SELECT sum(json_extract(r.details, '$.sessions'))"
    "  FROM audit r WHERE r.action='ledger.retained')"
    " FROM audit a WHERE a.action='session.created'"
    " AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id=a.subject)";
constexpr char kGoneEscalations[] =
    "SELECT count(*), max(a.seq), a.subject, (SELECT sum(json_extract(r.details, '$.escalations'))"
    "  FROM audit r WHERE r.action='ledger.retained')"
    " FROM audit a WHERE a.action='escalation.requested'"
    " AND NOT EXISTS (SELECT 1 FROM escalations e WHERE e.id=a.subject"
    "  AND e.tenant=ifnull(json_extract(a.details, '$.of_tenant'), a.tenant))";

// Rows per read: a long reader prevents SQLite from restarting the log.
constexpr int kChunk = 200;

struct Table {
  const char* rows_after;
  std::string_view beginning;              // name of the first audit entry
  std::string (*check)(const Statement&);  // the record's problem, "" if none
  const char* gone;
};

// A member of the audit row's details, "" if missing.
std::string detail(const std::string& details, std::string_view name) {
  const auto value = base::parseJson(details);
  if (!value || !value->is_object()) return {};
  const base::json::value* member = value->get_object().if_contains(name);
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : "";
}

std::string unproven(const Statement& row, std::string_view beginning) {
  const std::string id = row.text(1);
  const std::string status = row.text(2);
  if (row.text(5) != id) return "its " + std::string(beginning) + " has no audit entry";
  if (row.text(6) != id || detail(row.text(7), "status") != status) {
    return "its status " + status + " has no audit entry";
  }
  if (base::sha256Hex(row.text(4)) != detail(row.text(7), "record_sha256")) {
    return "its record is not the one of audit entry " + row.text(8);
  }
  return {};
}

template <class T>
std::string unlikeItsColumns(const Statement& row, const T& recorded, const std::string& tenant) {
  const bool same = recorded.id == row.text(1) &&
                    model::statusName(recorded.status) == row.text(2) && tenant == row.text(3);
  return same ? "" : "its columns are not those of its record";
}

// Compares the kept bytes with the stream's digest; a truncated output has no comparable digest.
bool outputIs(const std::string& bytes, const model::KeptOutput& kept, const std::string& sha256) {
  if (kept.truncated) return true;
  if (bytes.size() != kept.total) return false;
  return sha256.empty() || base::sha256Hex(bytes) == sha256;
}

// Checks an image digest bound after the execution's end.
bool imageIs(const Statement& row, const model::Execution& execution) {
  if (row.natural(12) == 0) return true;
  const auto details = base::parseJson(row.text(15));
  if (!details || !details->is_object() || !execution.provenance.image_digest.empty()) return false;
  model::AuditEntry entry;
  entry.event.action = row.text(14);
  entry.event.details = details->get_object();
  return bindsImage(entry, execution.id, row.text(13));
}

std::string checkExecution(const Statement& row) {
  const auto decoded = decodeRecord(row.text(4));
  if (!decoded) return decoded.error().message;
  const model::Execution& e = decoded->execution;
  std::string problem = unlikeItsColumns(row, e, e.principal.tenant);
  if (!problem.empty()) return problem;
  if (!imageIs(row, e)) return "its image digest is not the one of audit entry " + row.text(12);
  const bool archived = row.integer(9) != 0;
  if (archived || (outputIs(row.text(10), e.out, e.provenance.stdout_sha256) &&
                   outputIs(row.text(11), e.err, e.provenance.stderr_sha256))) {
    return {};
  }
  return "its kept output is not the one that was recorded";
}

std::string checkSession(const Statement& row) {
  const auto decoded = decodeSession(row.text(4));
  if (!decoded) return decoded.error().message;
  return unlikeItsColumns(row, decoded->session, decoded->session.principal.tenant);
}

std::string checkEscalation(const Statement& row) {
  const auto decoded = decodeEscalation(row.text(4));
  if (!decoded) return decoded.error().message;
  if (row.integer(10) != 0) return "the audit log has a newer record of it";
  if (decoded->execution_id != row.text(9)) return "it names another execution than its record";
  return unlikeItsColumns(row, *decoded, decoded->requester.tenant);
}

constexpr Table kExecutions = {kExecutionRows, "acceptance", checkExecution, kGoneExecutions};
constexpr Table kSessions = {kSessionRows, "creation", checkSession, kGoneSessions};
constexpr Table kEscalations = {kEscalationsAndRows, "request", checkEscalation, kGoneEscalations};

// Retention logs only the number of removed records. The newest missing record is probably not a
// removed record.
Result<std::optional<Mismatch>> findGone(Database& db, const Table& table) {
  Statement row = TRY(db.use(table.gone));
  TRY(row.step());
  const uint64_t gone = row.natural(0);
  const uint64_t removed = row.natural(3);
  if (gone <= removed) return std::nullopt;
  const std::string of = row.text(1);
  return Mismatch{.seq = 0,
                  .id = row.text(2),
                  .problem = "its record, of audit entry " + of + ", is gone (" +
                             std::to_string(gone) + " such are, of which retention removed " +
                             std::to_string(removed) + ")"};
}

Result<std::vector<Mismatch>> find(Database& db, const Table& table, uint64_t after,
                                   uint32_t limit) {
  std::vector<Mismatch> out;
  for (int rows = kChunk; rows == kChunk && out.size() < limit;) {
    Statement row = TRY(db.use(table.rows_after));
    row.bind(after, kChunk);
    for (rows = 0; out.size() < limit && TRY(row.step()); ++rows) {
      after = row.natural(0);
      std::string problem = unproven(row, table.beginning);
      if (problem.empty()) problem = table.check(row);
      if (problem.empty()) continue;
      out.push_back({.seq = after, .id = row.text(1), .problem = std::move(problem)});
    }
  }
  if (out.size() >= limit) return out;
  if (auto gone = TRY(findGone(db, table))) out.push_back(*std::move(gone));
  return out;
}

std::string member(const base::json::object& details, std::string_view name) {
  const base::json::value* found = details.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

}  // namespace

std::string nameOf(const model::AuditEntry& entry) {
  return "audit entry " + std::to_string(entry.seq) + " of its tenant";
}

Result<> proveEntry(const std::string& subject, const model::AuditEntry& entry) {
  if (entry.event.subject == subject &&
      base::sha256Hex(model::canonicalForm(entry)) == entry.hash) {
    return {};
  }
  return fail(Code::kConflict, nameOf(entry) + ", which tells of " + subject +
                                   ", is not as it was written; see `cloister audit verify`");
}

Result<> proveRecord(const std::string& subject, std::string_view status, std::string_view record,
                     const model::AuditEntry& state) {
  TRY(proveEntry(subject, state));
  const base::json::object& details = state.event.details;
  if (member(details, "status") == status &&
      member(details, "record_sha256") == base::sha256Hex(record)) {
    return {};
  }
  return fail(Code::kConflict, "the record of " + subject + " is not the one of " + nameOf(state) +
                                   "; see `cloister audit verify`");
}

Result<std::vector<Mismatch>> findMismatches(Database& db, uint64_t after, uint32_t limit) {
  return find(db, kExecutions, after, limit);
}

Result<std::vector<Mismatch>> findSessionMismatches(Database& db, uint64_t after, uint32_t limit) {
  return find(db, kSessions, after, limit);
}

Result<std::vector<Mismatch>> findEscalationMismatches(Database& db, uint64_t after,
                                                       uint32_t limit) {
  return find(db, kEscalations, after, limit);
}

}  // namespace cloister::store
