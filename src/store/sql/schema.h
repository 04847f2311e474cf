// SPDX-License-Identifier: Apache-2.0
// The ledger's schema: migrations in order, the number of those applied in PRAGMA user_version. To
// change the schema, add store/migrations/mNNN_….h and its line in schema.cc.
#pragma once

#include "base/result.h"
#include "store/sql/db.h"

namespace cloister::store {

// "Cloi" in PRAGMA application_id: a file of another program is refused.
inline constexpr int64_t kApplicationId = 0x436c6f69;

// Migrates `db` to the newest schema in one transaction. A newer schema than ours is kUnsupported,
// another program's file kInvalid.
Result<> migrate(Database& db);

}  // namespace cloister::store
