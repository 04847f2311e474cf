// SPDX-License-Identifier: Apache-2.0
// Texts that the audit log has sealed (model/audit_entry.h), stored beside the log in the ledger.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/audit_entry.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Adds the sealed texts to the entries, except redacted texts.
Result<> addSealed(Database& db, std::vector<model::AuditEntry>& entries);
// An audit row alone.
Result<void> appendEvent(Transaction tx, const model::AuditEvent& event);
// Several, all or none.
Result<void> appendEvents(Transaction tx, const std::vector<model::AuditEvent>& events);
// Deletes the sealed text `member` of the entry at `position`; `event` records the deletion in the
// log. The entry itself stays unchanged. kNotFound: beyond the scope, not sealed, or redacted
// before.
Result<void> redact(Transaction tx, const Scope& scope, uint64_t position,
                    const std::string& member, const model::AuditEvent& event);

}  // namespace cloister::store
