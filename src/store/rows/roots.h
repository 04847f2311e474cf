// SPDX-License-Identifier: Apache-2.0
// Signed roots of the audit log in the ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/root_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Adds the record of the next period, and drops all but the newest `keep` records. kConflict if the
// newest record is not the one before it.
Result<void> putRoot(Transaction tx, const StoredRoot& root, uint64_t keep);

Result<std::optional<StoredRoot>> newestRoot(Database& db);
Result<std::vector<StoredRoot>> listRoots(Database& db, uint64_t after, uint32_t limit);
Result<std::optional<StoredRoot>> rootCovering(Database& db, uint64_t position);
Result<std::vector<EntryHash>> entryHashes(Database& db, uint64_t after, uint32_t limit);

}  // namespace cloister::store
