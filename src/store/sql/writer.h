// SPDX-License-Identifier: Apache-2.0
// The ledger's one writer thread and its bounded queue. The writer takes the queued writes and
// applies the batch in one transaction, with a savepoint per write, so that a refused write does
// not affect the others. Then the writer seals the audit chain, commits, and hands the batch to the
// Syncer.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/anchor.h"
#include "store/sql/chain.h"
#include "store/sql/db.h"
#include "store/sql/mutex.h"
#include "store/sql/syncer.h"
#include "store/write.h"

namespace cloister::store {

class Writer {
 public:
  struct Options {
    size_t queue = 4096;
    size_t queue_bytes = size_t{256} << 20;
    size_t batch = 256;
    uint64_t checkpoint_every = 1000;
    uint64_t checkpointed = 0;  // seq of the checkpoint file's newest line; 0: write a line soon
    Anchor* anchor = nullptr;   // reserves room before each commit; null: none
  };

  // `syncer` and `fault` must outlive the Writer.
  Writer(Database db, Chain chain, Options options, Syncer& syncer, Fault& fault);
  // Writes the queued writes, and a last checkpoint.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // From any thread. With a full queue the write finishes at once with kQuota.
  void submit(std::unique_ptr<QueuedWrite> write);
  // An error if the last write failed, or the ledger is broken for good.
  [[nodiscard]] Result<> health() const;

 private:
  using Batch = std::vector<std::unique_ptr<QueuedWrite>>;
  void loop();
  bool take(Batch& batch);
  void perform(Batch batch);
  Result<std::optional<Checkpoint>> attempt(Batch& batch, size_t from, size_t to,
                                            std::vector<Result<>>& outcomes);
  Result<Result<>> applyOne(QueuedWrite& write);
  std::optional<Checkpoint> due(const std::optional<Checkpoint>& sealed);
  void keepLogShort();
  void probe();
  void note(const Result<>& outcome);

  Database db_;
  Chain chain_;
  const Options options_;
  Syncer& syncer_;
  Fault& fault_;
  uint64_t checkpointed_;
  std::optional<Checkpoint> sealed_;  // the newest
  int wal_pages_ = 0;                 // in the log after the last commit
  int moved_at_ = 0;                  // `wal_pages_` at the last move
  mutable Mutex mutex_;
  Condition wake_;
  bool stop_ CLOISTER_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<QueuedWrite>> queue_ CLOISTER_GUARDED_BY(mutex_);
  size_t queued_bytes_ CLOISTER_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ CLOISTER_GUARDED_BY(mutex_);  // of the last transaction
  std::thread thread_;
};

}  // namespace cloister::store
