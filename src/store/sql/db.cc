// SPDX-License-Identifier: Apache-2.0
#include "store/sql/db.h"

#include <fcntl.h>

#include <cerrno>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::store {
namespace {

Code codeOf(sqlite3* db) {
  const int extended = sqlite3_extended_errcode(db);
  switch (extended & 0xff) {
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_IOERR: {
      const int cause = sqlite3_system_errno(db);
      return cause == ENOSPC || cause == EDQUOT ? Code::kNoSpace : Code::kInternal;
    }
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_TOOBIG:
      return Code::kTooLarge;
    case SQLITE_CONSTRAINT:
      return extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY
                 ? Code::kConflict
                 : Code::kInternal;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Error sqliteError(sqlite3* db, std::string_view doing) {
  const std::string cause = db != nullptr ? sqlite3_errmsg(db) : "out of memory";
  const Code code = db != nullptr ? codeOf(db) : Code::kInternal;
  return Error{code, std::string(doing) + ": " + cause, {}};
}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Result<bool> Statement::step() {
  if (failed_ != SQLITE_OK) return std::unexpected(sqliteError(db_, "binding a ledger statement"));
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return std::unexpected(sqliteError(db_, "ledger"));
}

Result<> Statement::run() {
  while (TRY(step())) {
  }
  return {};
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

void Statement::bindNext(std::string_view text) {
  const char* bytes = text.data() != nullptr ? text.data() : "";
  note(sqlite3_bind_text64(statement_, ++bound_, bytes, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bindNext(const Blob& blob) {
  const char* bytes = blob.bytes.data() != nullptr ? blob.bytes.data() : "";
  note(sqlite3_bind_blob64(statement_, ++bound_, bytes, blob.bytes.size(), SQLITE_STATIC));
}

void Statement::bindNext(const std::optional<std::string>& text) {
  if (text) return bindNext(std::string_view(*text));
  note(sqlite3_bind_null(statement_, ++bound_));
}

void Statement::bindNext(int64_t value) {
  note(sqlite3_bind_int64(statement_, ++bound_, value));
}

Result<Database> Database::open(const std::string& path) {
  // SQLite gives its -wal and -shm the mode of the database; so that one is made first.
  if (const Fd made(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
      !made && errno != EEXIST) {
    return failErrno("making the ledger " + path);
  }
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db;
  db.handle_.reset(handle);
  if (code != SQLITE_OK) {
    return std::unexpected(sqliteError(handle, "opening the ledger " + path));
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_busy_timeout(handle, kBusyMillis);
  // A damaged or doctored file must not run code or read out of bounds: sqlite.org/security.html.
  // The log is moved by the syncer (not by wal_autocheckpoint), to hear of a failed sync. What is
  // deleted is overwritten: a secret that retention removed is gone.
  TRY(db.run(base::syncsSkipped() ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=NORMAL"));
  TRY(
      db.run("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
             "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON;"
             "PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-8192;"
             "PRAGMA secure_delete=ON; PRAGMA journal_size_limit=67108864;"));
  return db;
}

Result<> Database::run(const char* sql) {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return std::unexpected(sqliteError(handle_.get(), "ledger"));
}

Result<> Database::runKept(std::string_view sql) {
  Statement statement = TRY(use(sql));
  return statement.run();
}

void Database::rollBack() {
  // Fails only where there is no transaction: SQLite has rolled it back by itself.
  if (inTransaction()) sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<Statement> Database::use(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &made, nullptr) != SQLITE_OK) {
      return std::unexpected(sqliteError(handle_.get(), "preparing a ledger statement"));
    }
    found = statements_.emplace(sql, made).first;
  }
  return Statement(handle_.get(), found->second.get());
}

Result<std::string> Database::value(std::string_view sql) {
  Statement statement = TRY(use(sql));
  if (!TRY(statement.step())) return std::string();
  return statement.text(0);
}

}  // namespace cloister::store
