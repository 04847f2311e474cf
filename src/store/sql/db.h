// SPDX-License-Identifier: Apache-2.0
// A thin skin over the SQLite C API: one connection with its prepared statements. Used by one
// thread at a time. https://sqlite.org/cintro.html
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "base/result.h"

namespace cloister::store {

// How long a connection waits for a lock.
inline constexpr int kBusyMillis = 5000;

// The error of the last call on `db`. A full disk is kNoSpace, a broken UNIQUE kConflict, a lock
// that was not granted in time kUnavailable.
Error sqliteError(sqlite3* db, std::string_view doing);

// Bytes to bind as a BLOB; a string_view is bound as TEXT. Neither is copied: they must live until
// the statement is reset.
struct Blob {
  std::string_view bytes;
};

// A prepared statement in use; reset for the next user when it goes. Parameters and columns count
// from 1 and 0, as in SQLite.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  Statement(Statement&& other) noexcept
      : db_(other.db_),
        statement_(std::exchange(other.statement_, nullptr)),
        bound_(other.bound_),
        failed_(other.failed_) {}
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Binds the next parameters, in order. A failure surfaces in step().
  template <class... Values>
  Statement& bind(const Values&... values) {
    (bindNext(values), ...);
    return *this;
  }

  Result<bool> step();  // true: a row is there
  Result<> run();       // to the end, rows ignored

  // Of the present row; valid until the next step.
  [[nodiscard]] int64_t integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] uint64_t natural(int column) const {
    return static_cast<uint64_t>(integer(column));
  }
  [[nodiscard]] std::string text(int column) const;  // TEXT or BLOB; NULL is ""

 private:
  void bindNext(std::string_view text);
  void bindNext(const Blob& blob);
  void bindNext(const std::optional<std::string>& text);
  void bindNext(const std::string& text) { bindNext(std::string_view(text)); }
  void bindNext(const char* text) { bindNext(std::string_view(text)); }
  void bindNext(int64_t value);
  void bindNext(uint64_t value) { bindNext(static_cast<int64_t>(value)); }
  void bindNext(uint32_t value) { bindNext(static_cast<int64_t>(value)); }
  void bindNext(int value) { bindNext(static_cast<int64_t>(value)); }
  void note(int code) {
    if (code != SQLITE_OK) failed_ = code;
  }

  sqlite3* db_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
  int failed_ = SQLITE_OK;
};

class Database {
 public:
  // Opens or makes the file (mode 0600) and sets what every connection needs.
  static Result<Database> open(const std::string& path);

  // Runs statements without parameters, one after the other.
  Result<> run(const char* sql);
  // One statement without parameters that is run often; see use() about `sql`.
  Result<> runKept(std::string_view sql);
  // Ends the transaction, if one is open, as if it had never been.
  void rollBack();
  // The statement of `sql`, prepared once. The texts must be few: none is ever dropped.
  Result<Statement> use(std::string_view sql);
  // The first column of the first row, "" if there is none.
  Result<std::string> value(std::string_view sql);

  [[nodiscard]] int64_t lastRowId() const { return sqlite3_last_insert_rowid(handle_.get()); }
  [[nodiscard]] int64_t changes() const { return sqlite3_changes64(handle_.get()); }
  [[nodiscard]] bool inTransaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }
  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  std::unique_ptr<sqlite3, Close> handle_;
  std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>, std::less<>> statements_;
};

}  // namespace cloister::store
