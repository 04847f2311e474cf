// SPDX-License-Identifier: Apache-2.0
// The seam between the ledger and its database engine: `Database` is a connection, `Statement` a
// prepared statement in use. The rows (store/rows) and the migrations use only these two classes.
// An engine implements `Connection` and `Prepared`; sqlite.h is the only engine. The writer, the
// syncer, the readers and the encryption of rows use SQLite itself: a second engine needs its own.
//
// Transactions. The writer runs BEGIN IMMEDIATE, SAVEPOINT, RELEASE, ROLLBACK TO and COMMIT as
// statements. BEGIN IMMEDIATE gives the only writer its lock, so no later statement of the
// transaction fails because of another writer. The transaction's own reads see its writes at once;
// other connections see all writes together after COMMIT. A read outside a transaction sees one
// state of the ledger for the whole statement. An engine may end a transaction by itself after an
// error: inTransaction() tells. COMMIT need not reach the disk; the Syncer waits for the disk
// (syncer.h).
//
// Types. Parameters are TEXT, BLOB, NULL and 64-bit integers; columns are read as text() (TEXT and
// BLOB alike, NULL is "") or as integer() (NULL is 0). TEXT is UTF-8, may hold any byte of UTF-8,
// and is compared bytewise. Times are microseconds, booleans 0 and 1. An unsigned number beyond
// INT64_MAX is stored as the negative number of the same bits.
//
// SQL. The dialect is SQLite's: parameters are ? or ?N, an upsert is INSERT OR REPLACE, and the
// functions encrypt(), encrypts(), decrypted() and legible() with the views plain_TABLE exist
// (encryption.h). Another engine translates the SQL in prepare().
//
// Errors. A full disk is kNoSpace, a violated UNIQUE or PRIMARY KEY kConflict, a lock not granted
// in time kUnavailable, a value over the size limit kTooLarge; all else is kInternal. The writer
// takes kNoSpace, kUnavailable and kInternal for the engine's fault, which ends the transaction;
// another code refuses the single write (writer.cc). An error of bind() surfaces in step().
//
// Threads. A connection and its statements are used by one thread at a time, and may move between
// threads while no statement is in use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace cloister::store {

// An engine's prepared statement. Parameters count from 1, columns from 0.
class Prepared {
 public:
  virtual ~Prepared() = default;
  // The bytes are not copied: they live until reset(). False: binding failed, and step() will
  // return the error.
  virtual bool bindText(int parameter, std::string_view text) = 0;
  virtual bool bindBlob(int parameter, std::string_view bytes) = 0;
  virtual bool bindInteger(int parameter, int64_t value) = 0;
  virtual bool bindNull(int parameter) = 0;
  virtual Result<bool> step() = 0;                  // true: a row is there
  virtual Error error(std::string_view doing) = 0;  // of the first failed binding, or the last call
  [[nodiscard]] virtual int64_t integer(int column) const = 0;
  [[nodiscard]] virtual std::string text(int column) const = 0;
  // Ends its use: forgets the row and the parameters.
  virtual void reset() = 0;
};

// An engine's connection.
class Connection {
 public:
  virtual ~Connection() = default;
  // Statements without parameters, run in order.
  virtual Result<> run(const char* sql) = 0;
  virtual Result<std::unique_ptr<Prepared>> prepare(std::string_view sql) = 0;
  // Rolls back the open transaction, if any.
  virtual void rollBack() = 0;
  [[nodiscard]] virtual bool inTransaction() const = 0;
  [[nodiscard]] virtual int64_t lastRowId() const = 0;  // row id of the last INSERT
  [[nodiscard]] virtual int64_t changes() const = 0;    // rows changed by the last write
};

// Bytes to bind as a BLOB; a string_view is bound as TEXT. Neither is copied: they must live until
// the statement is reset.
struct Blob {
  std::string_view bytes;
};

// A prepared statement in use. Destruction resets the statement for its next user.
class Statement {
 public:
  explicit Statement(Prepared& prepared) : prepared_(&prepared) {}
  Statement(Statement&& other) noexcept
      : prepared_(std::exchange(other.prepared_, nullptr)),
        bound_(other.bound_),
        bad_(other.bad_) {}
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() {
    if (prepared_ != nullptr) prepared_->reset();
  }

  // Binds the next parameters, in order. A failure surfaces in step().
  template <class... Values>
  Statement& bind(const Values&... values) {
    (note(bindNext(values)), ...);
    return *this;
  }

  Result<bool> step();  // true: a row is there
  Result<> run();       // to the end, rows ignored

  // The present row's columns; valid until the next step.
  [[nodiscard]] int64_t integer(int column) const { return prepared_->integer(column); }
  [[nodiscard]] uint64_t natural(int column) const {
    return static_cast<uint64_t>(integer(column));
  }
  [[nodiscard]] std::string text(int column) const { return prepared_->text(column); }

 private:
  bool bindNext(std::string_view text) { return prepared_->bindText(++bound_, text); }
  bool bindNext(const Blob& blob) { return prepared_->bindBlob(++bound_, blob.bytes); }
  bool bindNext(const std::optional<std::string>& text) {
    return text ? bindNext(std::string_view(*text)) : prepared_->bindNull(++bound_);
  }
  bool bindNext(const std::string& text) { return bindNext(std::string_view(text)); }
  bool bindNext(const char* text) { return bindNext(std::string_view(text)); }
  bool bindNext(int64_t value) { return prepared_->bindInteger(++bound_, value); }
  bool bindNext(uint64_t value) { return bindNext(static_cast<int64_t>(value)); }
  bool bindNext(uint32_t value) { return bindNext(static_cast<int64_t>(value)); }
  bool bindNext(int value) { return bindNext(static_cast<int64_t>(value)); }
  void note(bool bound) { bad_ = bad_ || !bound; }

  Prepared* prepared_;
  int bound_ = 0;
  bool bad_ = false;
};

// A connection with its prepared statements.
class Database {
 public:
  explicit Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  // Runs statements without parameters in order.
  Result<> run(const char* sql) { return connection_->run(sql); }
  // Runs a frequent statement without parameters; see use() about `sql`.
  Result<> runKept(std::string_view sql);
  // The statement of `sql`, prepared once. The texts must be few: none is ever dropped.
  Result<Statement> use(std::string_view sql);
  // The first column of the first row, "" if there is none.
  Result<std::string> value(std::string_view sql);

  void rollBack() { connection_->rollBack(); }
  [[nodiscard]] bool inTransaction() const { return connection_->inTransaction(); }
  [[nodiscard]] int64_t lastRowId() const { return connection_->lastRowId(); }
  [[nodiscard]] int64_t changes() const { return connection_->changes(); }
  // For an engine's own operations beside the seam.
  [[nodiscard]] Connection& connection() const { return *connection_; }

 private:
  std::unique_ptr<Connection> connection_;
  std::map<std::string, std::unique_ptr<Prepared>, std::less<>> statements_;
};

}  // namespace cloister::store
