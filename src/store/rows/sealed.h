// SPDX-License-Identifier: Apache-2.0
// What the audit log has sealed (model/audit_entry.h), beside it in the ledger.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/audit_entry.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Gives entries what is sealed in them and was not redacted.
Result<> addSealed(Database& db, std::vector<model::AuditEntry>& entries);
// An audit row alone.
Result<void> appendEvent(Transaction tx, const model::AuditEvent& event);
// Forgets what the entry at `position` has sealed as `member`, which `event` tells of in the log;
// the entry itself stays as it is. kNotFound: not within the scope, not sealed, or redacted before.
Result<void> redact(Transaction tx, const Scope& scope, uint64_t position,
                    const std::string& member, const model::AuditEvent& event);

}  // namespace cloister::store
