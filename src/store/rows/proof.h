// SPDX-License-Identifier: Apache-2.0
// Holds records to the audit log: see Store::mismatches and Store::sessionMismatches, and those of
// Escalations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "store/sql/db.h"
#include "store/store.h"

namespace cloister::store {

// "audit entry 12 of its tenant", for messages that a tenant may read: its seq, not its position.
std::string nameOf(const model::AuditEntry& entry);
// kConflict: the entry is not about `subject`, or not what its hash is of.
Result<> proveEntry(const std::string& subject, const model::AuditEntry& entry);
// kConflict: that, or `record` is not the one that `state`, its last entry, was written with.
Result<> proveRecord(const std::string& subject, std::string_view status, std::string_view record,
                     const model::AuditEntry& state);

Result<std::vector<Mismatch>> findMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findSessionMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findEscalationMismatches(Database& db, uint64_t after,
                                                       uint32_t limit);

}  // namespace cloister::store
