// SPDX-License-Identifier: Apache-2.0
#include "store/proof.h"

#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/json.h"
#include "store/record.h"

namespace cloister::store {
namespace {

constexpr char kRows[] =
    "SELECT e.seq, e.id, e.status, e.tenant, e.archived_at, e.record,"
    " a.subject, b.subject, b.details, b.seq, o.out, o.err FROM executions e"
    " LEFT JOIN audit a ON a.seq=e.accepted_row LEFT JOIN audit b ON b.seq=e.state_row"
    " LEFT JOIN outputs o ON o.execution=e.seq WHERE e.seq>? ORDER BY e.seq LIMIT ?";

// Rows read in one go: a reader that stays keeps the log from being started over.
constexpr int kChunk = 200;

// A member of the audit row's details, "" if it is not there.
std::string detail(const std::string& details, std::string_view name) {
  const auto value = base::parseJson(details);
  if (!value || !value->is_object()) return {};
  const base::json::value* member = value->get_object().if_contains(name);
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : "";
}

// The kept bytes against the digest of the stream, where all of it was kept.
bool outputIs(const std::string& bytes, const model::KeptOutput& kept, const std::string& sha256) {
  if (kept.truncated) return true;
  if (bytes.size() != kept.total) return false;
  return sha256.empty() || base::sha256Hex(bytes) == sha256;
}

// "" if the audit log bears the row out.
std::string problemOf(const Statement& row) {
  const std::string id = row.text(1);
  const std::string status = row.text(2);
  if (row.text(6) != id) return "its acceptance has no audit entry";
  if (row.text(7) != id || detail(row.text(8), "status") != status) {
    return "its status " + status + " has no audit entry";
  }
  const std::string record = row.text(5);
  if (base::sha256Hex(record) != detail(row.text(8), "record_sha256")) {
    return "its record is not the one of audit entry " + row.text(9);
  }
  const auto decoded = decodeRecord(record);
  if (!decoded) return decoded.error().message;
  const model::Execution& e = decoded->execution;
  if (e.id != id || model::statusName(e.status) != status || e.principal.tenant != row.text(3)) {
    return "its columns are not those of its record";
  }
  const bool archived = row.integer(4) != 0;
  if (archived || (outputIs(row.text(10), e.out, e.provenance.stdout_sha256) &&
                   outputIs(row.text(11), e.err, e.provenance.stderr_sha256))) {
    return {};
  }
  return "its kept output is not the one that was recorded";
}

}  // namespace

Result<std::vector<Mismatch>> findMismatches(Database& db, uint64_t after, uint32_t limit) {
  std::vector<Mismatch> out;
  for (int rows = kChunk; rows == kChunk && out.size() < limit;) {
    Statement row = TRY(db.use(kRows));
    row.bind(after, kChunk);
    for (rows = 0; out.size() < limit && TRY(row.step()); ++rows) {
      after = row.natural(0);
      std::string problem = problemOf(row);
      if (problem.empty()) continue;
      out.push_back({.seq = after, .id = row.text(1), .problem = std::move(problem)});
    }
  }
  return out;
}

}  // namespace cloister::store
