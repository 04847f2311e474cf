// SPDX-License-Identifier: Apache-2.0
// Checks records against the audit log: see Store::mismatches, Store::sessionMismatches, and the
// mismatches of Escalations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "store/sql/db.h"
#include "store/store.h"

namespace cloister::store {

// "audit entry 12 of its tenant", for messages to a tenant: names the entry's seq, not its
// position.
std::string nameOf(const model::AuditEntry& entry);
// kConflict: the entry is not about `subject`, or does not match its hash.
Result<> proveEntry(const std::string& subject, const model::AuditEntry& entry);
// kConflict: as proveEntry(), or `record` differs from the record of `state`, its last entry.
Result<> proveRecord(const std::string& subject, std::string_view status, std::string_view record,
                     const model::AuditEntry& state);

Result<std::vector<Mismatch>> findMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findSessionMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findEscalationMismatches(Database& db, uint64_t after,
                                                       uint32_t limit);

}  // namespace cloister::store
