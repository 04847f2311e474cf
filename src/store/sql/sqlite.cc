// SPDX-License-Identifier: Apache-2.0
#include "store/sql/sqlite.h"

#include <fcntl.h>

#include <cerrno>
#include <memory>

#include <sqlite3.h>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::store::sqlite {
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

// A null pointer would be bound as NULL.
const char* bytesOf(std::string_view text) {
  return text.data() != nullptr ? text.data() : "";
}

class PreparedStatement final : public Prepared {
 public:
  PreparedStatement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  bool bindText(int parameter, std::string_view text) override {
    return bound(sqlite3_bind_text64(statement_.get(), parameter, bytesOf(text), text.size(),
                                     SQLITE_STATIC, SQLITE_UTF8));
  }
  bool bindBlob(int parameter, std::string_view bytes) override {
    return bound(sqlite3_bind_blob64(statement_.get(), parameter, bytesOf(bytes), bytes.size(),
                                     SQLITE_STATIC));
  }
  bool bindInteger(int parameter, int64_t value) override {
    return bound(sqlite3_bind_int64(statement_.get(), parameter, value));
  }
  bool bindNull(int parameter) override {
    return bound(sqlite3_bind_null(statement_.get(), parameter));
  }
  Result<bool> step() override {
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return std::unexpected(error("ledger"));
  }
  Error error(std::string_view doing) override {
    if (!failed_) return sqlite::error(db_, doing);
    Error first = *failed_;
    first.message = std::string(doing) + ": " + first.message;
    return first;
  }
  [[nodiscard]] int64_t integer(int column) const override {
    return sqlite3_column_int64(statement_.get(), column);
  }
  [[nodiscard]] std::string text(int column) const override {
    const void* bytes = sqlite3_column_blob(statement_.get(), column);
    const int size = sqlite3_column_bytes(statement_.get(), column);
    if (bytes == nullptr) return {};
    return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
  }
  void reset() override {
    sqlite3_reset(statement_.get());
    sqlite3_clear_bindings(statement_.get());
    failed_.reset();
  }

 private:
  // A later call of SQLite overwrites the error of a failed binding.
  bool bound(int code) {
    if (code == SQLITE_OK) return true;
    if (!failed_) failed_ = sqlite::error(db_, "a parameter");
    return false;
  }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::optional<Error> failed_;  // of the first failed binding
};

class FileConnection final : public Connection {
 public:
  explicit FileConnection(sqlite3* handle) : handle_(handle) {}

  Result<> run(const char* sql) override {
    if (sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return std::unexpected(error(handle(), "ledger"));
  }
  Result<std::unique_ptr<Prepared>> prepare(std::string_view sql) override {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v3(handle(), sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &made, nullptr) != SQLITE_OK) {
      return std::unexpected(error(handle(), "preparing a ledger statement"));
    }
    return std::make_unique<PreparedStatement>(handle(), made);
  }
  void rollBack() override {
    // Fails only without a transaction: SQLite has rolled the transaction back by itself.
    if (inTransaction()) sqlite3_exec(handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  [[nodiscard]] bool inTransaction() const override {
    return sqlite3_get_autocommit(handle()) == 0;
  }
  [[nodiscard]] int64_t lastRowId() const override { return sqlite3_last_insert_rowid(handle()); }
  [[nodiscard]] int64_t changes() const override { return sqlite3_changes64(handle()); }
  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

int noteLogPages(void* pages, sqlite3* /*db*/, const char* /*name*/, int count) {
  *static_cast<int*>(pages) = count;
  return SQLITE_OK;
}

int modeOf(Move how) {
  switch (how) {
    case Move::kPassive:
      return SQLITE_CHECKPOINT_PASSIVE;
    case Move::kRestart:
      return SQLITE_CHECKPOINT_RESTART;
    case Move::kTruncate:
      break;
  }
  return SQLITE_CHECKPOINT_TRUNCATE;
}

}  // namespace

Error error(sqlite3* db, std::string_view doing) {
  const std::string cause = db != nullptr ? sqlite3_errmsg(db) : "out of memory";
  const Code code = db != nullptr ? codeOf(db) : Code::kInternal;
  return Error{code, std::string(doing) + ": " + cause, {}};
}

sqlite3* handleOf(const Database& db) {
  return static_cast<const FileConnection&>(db.connection()).handle();
}

Result<Database> open(const std::string& path) {
  // SQLite gives its -wal and -shm the mode of the database, so the database is made first.
  if (const Fd made(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
      !made && errno != EEXIST) {
    return failErrno("making the ledger " + path);
  }
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(std::make_unique<FileConnection>(handle));
  if (code != SQLITE_OK) return std::unexpected(error(handle, "opening the ledger " + path));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  setBusy(db, kBusy);
  // A damaged or doctored file must not run code or read out of bounds: sqlite.org/security.html.
  // The syncer moves the log (not wal_autocheckpoint) and so notices a failed sync. Deleted data is
  // overwritten, so that retention removes secrets from the file.
  TRY(db.run(base::syncsSkipped() ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=NORMAL"));
  TRY(
      db.run("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
             "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON;"
             "PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-8192;"
             "PRAGMA secure_delete=ON; PRAGMA journal_size_limit=67108864;"));
  return db;
}

void setBusy(const Database& db, std::chrono::milliseconds time) {
  sqlite3_busy_timeout(handleOf(db), static_cast<int>(time.count()));
}

void watchLog(const Database& db, int& pages) {
  sqlite3_wal_hook(handleOf(db), noteLogPages, &pages);
}

Result<Moved> moveLog(const Database& db, Move how, bool& lost_sync) {
  sqlite3* handle = handleOf(db);
  const int code = sqlite3_wal_checkpoint_v2(handle, nullptr, modeOf(how), nullptr, nullptr);
  if (code == SQLITE_OK) return Moved{.all = true};
  if ((code & 0xff) == SQLITE_BUSY) return Moved{};
  lost_sync = code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC;
  return std::unexpected(error(handle, "moving the ledger's log into the database"));
}

}  // namespace cloister::store::sqlite
