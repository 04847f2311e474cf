// SPDX-License-Identifier: Apache-2.0
// API keys in the ledger: only their digests. store.h documents the reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// Stores a new key.
Result<void> putKey(Transaction tx, const KeyRecord& key, const model::AuditEvent& event);
// kConflict for the last valid key of an administrator.
Result<void> revokeKey(Transaction tx, const Scope& scope, const std::string& id,
                       const model::AuditEvent& event);
// Stores `key`, the successor of the valid key `key.replaces`, with an audit row. The old key ends
// at `ends_at`, or at its own earlier end.
Result<void> rotateKey(Transaction tx, const Scope& scope, const KeyRecord& key, int64_t ends_at,
                       const model::AuditEvent& event);
// Notes a use of a key. No audit row: the key's actions have audit rows.
Result<void> noteKeyUse(Transaction tx, const std::string& id, int64_t at);
Result<KeyRecord> getKey(Database& db, const Scope& scope, const std::string& id);
Result<std::optional<KeyRecord>> findKey(Database& db, const std::string& sha256);
Result<std::vector<KeyRecord>> listKeys(Database& db, const Scope& scope);
Result<std::vector<KeyRecord>> successorRows(Database& db, const std::string& id, int64_t now,
                                             uint32_t limit);

}  // namespace cloister::store
