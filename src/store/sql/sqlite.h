// SPDX-License-Identifier: Apache-2.0
// SQLite behind the seam of db.h, and the ledger's uses of SQLite beside the seam: moving the
// write-ahead log into the file from time to time, and the functions of encryption.h. Nothing
// outside this folder includes <sqlite3.h>. https://sqlite.org/cintro.html
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/sql/db.h"

struct sqlite3;

namespace cloister::store::sqlite {

// How long a connection waits for a lock.
inline constexpr std::chrono::milliseconds kBusy{5000};

// Opens or makes the file (mode 0600) and applies the settings of every connection.
Result<Database> open(const std::string& path);

// The connection of a Database from open().
sqlite3* handleOf(const Database& db);
// The error of the last call on `db`, with the codes of db.h.
Error error(sqlite3* db, std::string_view doing);

// Another time to wait for a lock than kBusy.
void setBusy(const Database& db, std::chrono::milliseconds time);
// After each commit of `db`, `pages` receives the number of pages in the log; `pages` outlives the
// connection.
void watchLog(const Database& db, int& pages);

enum class Move {
  kPassive,   // move pages without waiting
  kRestart,   // all, waiting for readers; the next commit starts the log over
  kTruncate,  // all, and the log is empty then
};
// Result of moving the log into the file; not all pages if a reader was in the way.
struct Moved {
  bool all = false;
};
// sqlite3_wal_checkpoint_v2(). `lost_sync`: the error is of a failed sync, so the log's content may
// not be on disk.
Result<Moved> moveLog(const Database& db, Move how, bool& lost_sync);

}  // namespace cloister::store::sqlite
