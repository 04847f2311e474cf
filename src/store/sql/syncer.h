// SPDX-License-Identifier: Apache-2.0
// The thread that waits for the disk in the writer's place. With Durability::kPower the syncer
// syncs the write-ahead log, then adds the newest signed head to the anchor (anchor.h), and only
// then finishes the committed writes. With either durability the syncer puts signed checkpoints
// into their file, after a sync of the log up to the checkpoint, and moves the log into the
// database. With Durability::kProcess the writer itself adds the head to the anchor, which waits
// for no disk.
//
// A commit is in the -wal file before the writer hands the batch over, and SQLite's recovery takes
// every whole transaction of the file (sqlite.org/wal.html, "Performance Considerations" and
// sqlite.org/walformat.html §4), so fdatasync of the -wal file makes the commit durable. When
// SQLite restarts the -wal file, its old content is already synced to the database
// (synchronous=NORMAL).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "store/sql/db.h"
#include "store/sql/mutex.h"
#include "store/sql/sqlite.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

using SyncFunction = std::function<int(int fd)>;  // as fdatasync(2)

// A fault with no repair while the process lives: after a failed sync the kernel may have dropped
// the pages, and a later successful sync proves nothing. Set once. Thread-safe.
class Fault {
 public:
  void set(Error error);
  [[nodiscard]] Result<> check() const;

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ CLOISTER_GUARDED_BY(mutex_);
};

class Anchor;

// A write whose fate is known.
struct Finished {
  std::unique_ptr<QueuedWrite> write;
  Result<> outcome;
};

class Syncer {
 public:
  struct Options {
    std::string ledger;
    Durability durability = Durability::kProcess;
    std::string checkpoint_file;
    Anchor* anchor = nullptr;  // null: none
    size_t backlog = 4096;     // writes waiting for the disk before the writer has to wait too
    SyncFunction sync;
  };

  // The ledger's -wal file must exist. `fault` must outlive the Syncer.
  static Result<std::unique_ptr<Syncer>> start(Options options, Fault& fault);
  ~Syncer();
  Syncer(const Syncer&) = delete;
  Syncer& operator=(const Syncer&) = delete;

  // Announces a batch before its commit: from now on settle() waits for the batch's subjects. Each
  // announce() is followed by hand(), also after a failure. From the writer thread.
  void announce(const std::vector<std::unique_ptr<QueuedWrite>>& batch);
  // Finishes the batch, which is committed (or refused): at once, or after a sync, and in either
  // case once the anchor has `head`. `checkpoint` goes to the file.
  void hand(std::vector<Finished> batch, std::optional<Checkpoint> head,
            std::optional<Checkpoint> checkpoint);
  // Moves the log into the database, while the writer continues.
  void moveLog();

  // Returns once all data of `execution` ("": all data) that a reader may have seen is as durable
  // as an acknowledgement. From any thread.
  Result<> settle(const std::string& execution);

 private:
  struct Work {
    std::vector<Finished> batch;
    std::optional<Checkpoint> head;  // the newest of the batch
    std::optional<Checkpoint> checkpoint;
    bool move = false;
    uint64_t upto = 0;  // of `handed_`
    [[nodiscard]] bool none() const { return batch.empty() && !checkpoint && !move; }
  };

  Syncer(Options options, Fault& fault, Fd wal, Database db);
  void loop();
  Work take();
  void perform(Work work);
  static void finish(std::vector<Finished>& batch, const Result<>& kept);
  [[nodiscard]] Result<> anchor(const std::optional<Checkpoint>& head) const;
  void record(const Checkpoint& checkpoint);
  Result<> sync();

  const Options options_;
  Fault& fault_;
  const Fd wal_;
  Database db_;
  Mutex mutex_;
  Condition wake_;
  Condition settled_;
  bool stop_ CLOISTER_GUARDED_BY(mutex_) = false;
  Work waiting_ CLOISTER_GUARDED_BY(mutex_);
  uint64_t announced_ CLOISTER_GUARDED_BY(mutex_) = 0;  // batches
  uint64_t handed_ CLOISTER_GUARDED_BY(mutex_) = 0;
  uint64_t synced_ CLOISTER_GUARDED_BY(mutex_) = 0;
  // The newest batch with a write of each execution.
  std::unordered_map<std::string, uint64_t> unsynced_ CLOISTER_GUARDED_BY(mutex_);
  std::thread thread_;
};

// A new file is only found after a power loss if its directory entry was synced.
Result<> syncDirectoryOf(const std::string& path);

// sqlite::moveLog(). A sync that failed goes to `fault`; a reader in the way is no error (the rest
// is moved next time).
Result<> moveLogIntoDatabase(Database& db, sqlite::Move how, Fault& fault);

}  // namespace cloister::store
