// SPDX-License-Identifier: Apache-2.0
// The ledger: executions, sessions, kept output, the audit log, keys. One write transaction holds a
// record and its audit row; a status seen by a client is durable (see Durability).
//
// Writes. A write is a function beside its rows (write.h). One writer thread commits many writes at
// a time (group commit). `done` runs on a thread of the ledger after the commit (and, with
// Durability::kPower, after fdatasync). If the transaction failed, `done` gets the error, and
// nothing of the write happened. With a full queue `done` runs at once on the caller's thread, with
// kQuota. `done` must be quick and must not read the store: post longer work elsewhere. After a
// failed fdatasync the durability of its commits is unknown; every later write is refused until the
// ledger is opened again.
//
// Reads. A read is a function over Reads (reads.h), and a service awaits reading() for its result.
// Where the engine never makes a read wait (SQLite with Durability::kProcess), the function runs at
// once on the caller's thread. Otherwise it runs on one of the ledger's threads for reads, and the
// caller resumes on its executor: other work of the executor goes on in between, so whatever was
// known before an await is checked again after it. At most `SqliteOptions::waiting_reads` requests
// wait for a thread; a further one fails with kUnavailable, to be retried.
//
// Thread-safe. Destroy the store from one thread when no other thread uses it; the destructor
// writes the queued writes first. store_suite.h tests every engine.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "async/awaiting.h"
#include "base/result.h"
#include "store/read_pool.h"
#include "store/reads.h"
#include "store/write.h"

namespace cloister::store {

class Engine;

template <class T>
using Task = boost::asio::awaitable<T>;
template <class Read, class... Values>
using ReadOf = decltype(callRead(std::declval<Read&>(), std::declval<Reads&>(),
                                 std::declval<const Values&>()...));

class Store : public Reads {
 public:
  explicit Store(std::unique_ptr<Engine> engine);
  Store(Store&&) noexcept;
  ~Store();

  // store.write(writing(updateExecution, execution, event), done);
  template <class T>
  void write(Write<T> write, std::type_identity_t<Done<T>> done) {
    submit(std::make_unique<QueuedWriteOf<T>>(std::move(write), std::move(done)));
  }
  // For tests; before any write. The gate outlives the ledger.
  void setGate(WriteGate& gate);
  // Queues a write that the gate had kept.
  void pass(std::unique_ptr<QueuedWrite> write);
  // A contradiction of the log to its published heads, found at the opening; "" for none.
  [[nodiscard]] const std::string& publishedLoss() const;

  // What `read` returns, a Result, for a request; callRead() calls it with `values`. The caller
  // keeps all that `read` refers to until the result is there, and changes none of it meanwhile.
  //   co_await store.reading(&store::Reads::get, scope, id);
  template <class Read, class... Values>
  Task<ReadOf<Read, Values...>> reading(Read read, Values... values) {
    if (readsAtOnce()) co_return callRead(read, blocking(), values...);
    co_return co_await pooled(ReadFor::kRequest, read, values...);
  }
  // The same for the service's own work, such as the end of a run, which goes on where requests are
  // refused: as many of these reads may wait again.
  template <class Read, class... Values>
  Task<ReadOf<Read, Values...>> readingForService(Read read, Values... values) {
    if (readsAtOnce()) co_return callRead(read, blocking(), values...);
    co_return co_await pooled(ReadFor::kService, read, values...);
  }
  // As reading(), for reads that take long with any engine, such as a search: never at once.
  template <class Read, class... Values>
  Task<ReadOf<Read, Values...>> scanning(Read read, Values... values) {
    co_return co_await pooled(ReadFor::kRequest, read, values...);
  }
  // For start-up, tools and tests: the caller's thread waits.
  Reads& blocking() { return *this; }
  // Refuses further reads, drops those that wait for a thread, and returns when the others have
  // ended. Before the objects go that reads refer to.
  void stopReads();

  // An error, with the reason, when the last write failed (disk full, damage).
  Result<> health();

 private:
  void submit(std::unique_ptr<QueuedWrite> write);
  [[nodiscard]] bool readsAtOnce() const;
  // On a thread of the ledger, or never: kUnavailable from add().
  Result<> post(ReadFor purpose, std::function<void()> read);

  // The waiting caller is kept, with its frame, until the function has ended.
  template <class Read, class... Values>
  Task<ReadOf<Read, Values...>> pooled(ReadFor purpose, Read& read, const Values&... values) {
    using Value = ReadOf<Read, Values...>;
    return async::callback<Value>([&, purpose](std::function<void(Value)> done) {
      const auto posted = post(purpose, [&, done] { done(callRead(read, blocking(), values...)); });
      if (!posted) done(std::unexpected(posted.error()));
    });
  }

  std::unique_ptr<Engine> engine_;
};

}  // namespace cloister::store
