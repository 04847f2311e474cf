// SPDX-License-Identifier: Apache-2.0
// The ledger in one SQLite file: the engine under a Store. Threads: the callers' and the pool's
// (reads), the writer's, the syncer's.
//
//   write  ─→ Writer: queue → BEGIN IMMEDIATE … audit rows, signed head … COMMIT
//                └─→ Syncer: fdatasync(-wal) → done(…), line of the checkpoint file
//   read   ─→ Readers: a connection of their own each
//
// Only one process at a time may have the ledger open: the chain's head is in memory.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "store/anchor.h"
#include "store/open.h"
#include "store/read_pool.h"
#include "store/sql/readers.h"
#include "store/sql/syncer.h"
#include "store/sql/writer.h"
#include "store/write.h"

namespace cloister::store {

// Members are destroyed from the last to the first: awaited reads end, then the writer, then the
// syncer, then the file is closed and unlocked.
class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const SqliteOptions& options, SyncFunction sync);

  // The only path to the queue, through the gate.
  void submit(std::unique_ptr<QueuedWrite> write);
  // Past the gate.
  void pass(std::unique_ptr<QueuedWrite> write) { writer_->submit(std::move(write)); }
  template <class T>
  void write(Write<T> write, std::type_identity_t<Done<T>> done) {
    submit(std::make_unique<QueuedWriteOf<T>>(std::move(write), std::move(done)));
  }

  // Returns a result only once the data is as durable as an acknowledgement. Waits for all writes
  // of `subject` (an execution or a session); "" waits for all writes.
  template <class Read>
  auto read(const std::string& subject, Read read) -> decltype(read(std::declval<Database&>())) {
    auto result = readers_.with(read);
    TRY(syncer_->settle(subject));
    return result;
  }

  // With kProcess no read waits: settle() returns at once, and readers never wait for the writer
  // (sqlite.org/wal.html, "Concurrency").
  [[nodiscard]] bool readsAtOnce() const { return at_once_; }
  ReadPool& pool() { return *pool_; }

  Result<> health();
  [[nodiscard]] const std::string& publishedLoss() const { return published_loss_; }
  // Call before any other use; the gate outlives the engine.
  void setGate(WriteGate& gate) { gate_ = &gate; }

 private:
  Result<> openAnchor(const SqliteOptions& options, SyncFunction sync);
  void endOldNumbers();

  Fd lock_;
  Fault fault_;
  Readers readers_;
  WriteGate* gate_ = nullptr;
  std::string published_loss_;
  std::unique_ptr<Anchor> anchor_;
  std::unique_ptr<Syncer> syncer_;
  std::unique_ptr<Writer> writer_;
  bool at_once_ = false;
  std::unique_ptr<ReadPool> pool_;
};

// openSqlite() with another fdatasync(2), for tests of failed syncs.
Result<std::unique_ptr<Store>> openSqliteWith(const SqliteOptions& options, SyncFunction sync);

}  // namespace cloister::store
