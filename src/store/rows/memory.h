// SPDX-License-Identifier: Apache-2.0
// The memory of sessions in the ledger. All of these give kNotFound for a session that does not
// exist or is not within `scope`.
#pragma once

#include <string>
#include <vector>

#include "store/memory_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Stores the value in place of an earlier value. kConflict once the session has ended, kQuota if
// the session would exceed `bounds` in keys or bytes.
Result<model::MemoryItem> putMemory(Transaction tx, const Scope& scope, const NewMemory& value,
                                    const model::MemoryBounds& bounds,
                                    const model::AuditEvent& event);
// Also after the session's end. kNotFound for an unknown key.
Result<void> removeMemory(Transaction tx, const Scope& scope, const MemoryKey& of,
                          const model::AuditEvent& event);
Result<model::MemoryValue> getMemory(Database& db, const Scope& scope, const std::string& session,
                                     const std::string& key);
Result<std::vector<model::MemoryItem>> listMemory(Database& db, const Scope& scope,
                                                  const MemoryQuery& query);

}  // namespace cloister::store
