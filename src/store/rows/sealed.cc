// SPDX-License-Identifier: Apache-2.0
#include "store/rows/sealed.h"

#include <algorithm>

#include "store/sql/chain.h"

namespace cloister::store {
namespace {

constexpr char kSealedIn[] =
    "SELECT s.seq, s.name,"
    " legible(s.encrypted, a.tenant, 'salt ' || s.seq || ' ' || s.name, s.salt),"
    " legible(s.encrypted, a.tenant, 'sealed ' || s.seq || ' ' || s.name, s.value)"
    " FROM audit_sealed s JOIN audit a ON a.seq=s.seq"
    " WHERE s.seq>=? AND s.seq<=? ORDER BY s.seq, s.name";
constexpr char kThere[] =
    "SELECT 1 FROM audit_sealed s JOIN audit a ON a.seq=s.seq"
    " WHERE s.seq=?1 AND s.name=?2 AND (?3 IS NULL OR a.tenant=?3)";
constexpr char kForget[] = "DELETE FROM audit_sealed WHERE seq=? AND name=?";
// A violation's own row has the same text, and its words.
constexpr char kForgetViolation[] =
    "UPDATE violations SET what=iif(?2='what', '', what), words=iif(?2='what', '', words),"
    " reason=iif(?2='reason', '', reason) WHERE id="
    " (SELECT json_extract(details, '$.violation') FROM audit WHERE seq=?1"
    "  AND action='agent.violation')";

}  // namespace

Result<> addSealed(Database& db, std::vector<model::AuditEntry>& entries) {
  if (entries.empty()) return {};
  const auto [first, last] = std::ranges::minmax(entries, {}, &model::AuditEntry::position);
  Statement row = TRY(db.use(kSealedIn));
  row.bind(first.position, last.position);
  while (TRY(row.step())) {
    const auto entry = std::ranges::find(entries, row.natural(0), &model::AuditEntry::position);
    if (entry == entries.end()) continue;
    auto value = base::parseJson(row.text(3), {.max_bytes = size_t{1} << 30});
    // An unreadable value becomes null: its seal will differ from the recorded seal.
    entry->sealed.push_back({row.text(1), row.text(2), value ? *std::move(value) : nullptr});
  }
  return {};
}

Result<void> appendEvent(Transaction tx, const model::AuditEvent& event) {
  TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> appendEvents(Transaction tx, const std::vector<model::AuditEvent>& events) {
  for (const model::AuditEvent& event : events)
    TRY(tx.chain.append(tx.db, event));
  return {};
}

Result<void> redact(Transaction tx, const Scope& scope, uint64_t position,
                    const std::string& member, const model::AuditEvent& event) {
  Statement there = TRY(tx.db.use(kThere));
  if (!TRY(there.bind(position, member, scope.tenant()).step())) {
    return fail(Code::kNotFound, "the audit entry at position " + std::to_string(position) +
                                     " has no sealed \"" + member +
                                     "\", or it was redacted before; the position is not its seq");
  }
  Statement forget = TRY(tx.db.use(kForget));
  TRY(forget.bind(position, member).run());
  Statement violation = TRY(tx.db.use(kForgetViolation));
  TRY(violation.bind(position, member).run());
  TRY(tx.chain.append(tx.db, event));
  return {};
}

}  // namespace cloister::store
