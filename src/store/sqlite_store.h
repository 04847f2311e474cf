// SPDX-License-Identifier: Apache-2.0
// The ledger in one SQLite file. Threads: the callers' (reads), the writer's, the syncer's.
//
//   accept/update/append ─→ Writer: queue → BEGIN IMMEDIATE … audit rows, signed head … COMMIT
//                              └─→ Syncer: fdatasync(-wal) → done(…), line of the checkpoint file
//   get/list/audit       ─→ Readers: a connection of their own each
//
// Only one process at a time may have the ledger open: the chain's head is in memory.
#pragma once

#include <memory>

#include "base/result.h"
#include "store/open.h"
#include "store/sql/syncer.h"

namespace cloister::store {

// openSqlite() with another fdatasync(2), for tests of what happens when it fails.
Result<std::unique_ptr<Store>> openSqliteWith(const SqliteOptions& options, SyncFunction sync);

}  // namespace cloister::store
