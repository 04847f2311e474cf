// SPDX-License-Identifier: Apache-2.0
#include "store/sql/writer.h"

#include "base/log.h"
#include "store/sql/sqlite.h"

namespace cloister::store {
namespace {

constexpr std::chrono::milliseconds kProbeEvery{1000};
constexpr std::chrono::milliseconds kBriefly{100};
// Each time the log has grown by kMovePages, the syncer moves the log into the database while the
// writer continues. Past kMostPages the writer itself waits for the move, to bound the file's size.
constexpr int kMovePages = 1000;
constexpr int kMostPages = 16'000;

// A transaction takes no more writes beyond this size.
constexpr size_t kBatchBytes = size_t{16} << 20;

// A fault of the ledger, not of the single write.
bool isFault(const Error& error) {
  return error.code == Code::kNoSpace || error.code == Code::kUnavailable ||
         error.code == Code::kInternal;
}

Result<void> touchProbe(Transaction tx) {
  return tx.db.runKept("UPDATE probe SET written = written + 1");
}

}  // namespace

Writer::Writer(Database db, Chain chain, Options options, Syncer& syncer, Fault& fault)
    : db_(std::move(db)),
      chain_(std::move(chain)),
      options_(options),
      syncer_(syncer),
      fault_(fault),
      checkpointed_(options.checkpointed) {
  sqlite::watchLog(db_, wal_pages_);
  if (auto head = readHead(db_)) sealed_ = *std::move(head);
  thread_ = std::thread([this] { loop(); });
}

Writer::~Writer() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notifyOne();
  thread_.join();
  if (sealed_ && sealed_->seq > checkpointed_) {
    syncer_.announce({});
    syncer_.hand({}, std::nullopt, sealed_);
  }
}

void Writer::submit(std::unique_ptr<QueuedWrite> write) {
  {
    const Lock lock(mutex_);
    const bool fits =
        queued_bytes_ == 0 || queued_bytes_ + write->about.bytes <= options_.queue_bytes;
    if (!stop_ && fits && queue_.size() < options_.queue) {
      queued_bytes_ += write->about.bytes;
      queue_.push_back(std::move(write));
    }
  }
  if (!write) return wake_.notifyOne();
  write->finish(fail(Code::kQuota, "writing to the ledger: its queue is full"));
}

Result<> Writer::health() const {
  TRY(fault_.check());
  const Lock lock(mutex_);
  if (!failure_) return {};
  return std::unexpected(*failure_);
}

void Writer::loop() {
  Batch batch;
  while (take(batch)) {
    if (batch.empty()) {
      probe();
    } else {
      perform(std::exchange(batch, {}));
    }
    keepLogShort();
  }
}

// False at the end; an empty batch asks for a probe of a failed ledger.
bool Writer::take(Batch& batch) {
  const Lock lock(mutex_);
  while (!stop_ && queue_.empty()) {
    if (!failure_) {
      wake_.wait(mutex_);
      continue;
    }
    wake_.waitFor(mutex_, kProbeEvery);
    if (!stop_ && queue_.empty()) return true;
  }
  size_t bytes = 0;
  while (!queue_.empty() && batch.size() < options_.batch && bytes < kBatchBytes) {
    bytes += queue_.front()->about.bytes;
    queued_bytes_ -= queue_.front()->about.bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return !batch.empty();
}

void Writer::perform(Batch batch) {
  syncer_.announce(batch);
  std::vector<Result<>> outcomes(batch.size());
  std::optional<Checkpoint> sealed;
  auto committed = attempt(batch, 0, batch.size(), outcomes);
  if (committed) {
    sealed = *std::move(committed);
  } else {
    // Apply each write alone, to separate invalid writes from writes that failed with the batch.
    for (size_t i = 0; i < batch.size(); ++i) {
      auto alone = attempt(batch, i, i + 1, outcomes);
      if (!alone) {
        outcomes[i] = std::unexpected(std::move(alone).error());
      } else if (*alone) {
        sealed = *std::move(alone);
      }
    }
  }
  std::vector<Finished> finished;
  finished.reserve(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    finished.push_back({std::move(batch[i]), std::move(outcomes[i])});
  }
  auto checkpoint = due(sealed);
  syncer_.hand(std::move(finished), std::move(sealed), std::move(checkpoint));
}

// Applies the writes of `batch` from index `from` up to `to` in one transaction. Returns the signed
// head (if the writes added entries), or the error after which no write was applied.
Result<std::optional<Checkpoint>> Writer::attempt(Batch& batch, size_t from, size_t to,
                                                  std::vector<Result<>>& outcomes) {
  const Chain::Head before = chain_.head();
  auto done = [&]() -> Result<std::optional<Checkpoint>> {
    TRY(fault_.check());
    if (options_.anchor != nullptr) TRY(options_.anchor->reserve());
    TRY(db_.runKept("BEGIN IMMEDIATE"));
    for (size_t i = from; i < to; ++i)
      outcomes[i] = TRY(applyOne(*batch[i]));
    auto sealed = TRY(chain_.seal(db_));
    TRY(db_.runKept("COMMIT"));
    chain_.committed();
    return sealed;
  }();
  if (!done) {
    chain_.restore(before);
    db_.rollBack();
    note(std::unexpected(done.error()));
  } else {
    note({});
  }
  return done;
}

// The inner Result is of the write itself; an outer error ends the transaction.
Result<Result<>> Writer::applyOne(QueuedWrite& write) {
  const Chain::Head before = chain_.head();
  TRY(db_.runKept("SAVEPOINT one"));
  Result<> applied = write.apply({.db = db_, .chain = chain_});
  if (!applied) {
    if (isFault(applied.error()) || !db_.inTransaction()) {
      return std::unexpected(std::move(applied).error());
    }
    TRY(db_.runKept("ROLLBACK TO one"));
    chain_.restore(before);
  }
  TRY(db_.runKept("RELEASE one"));
  return applied;
}

// The checkpoint for the file, if due.
std::optional<Checkpoint> Writer::due(const std::optional<Checkpoint>& sealed) {
  if (!sealed) return std::nullopt;
  sealed_ = sealed;
  const bool first = checkpointed_ == 0;
  if (!first && sealed_->seq < checkpointed_ + options_.checkpoint_every) return std::nullopt;
  checkpointed_ = sealed_->seq;
  return sealed_;
}

void Writer::keepLogShort() {
  if (wal_pages_ < kMovePages) moved_at_ = 0;  // SQLite has started the log over
  if (wal_pages_ < moved_at_ + kMovePages) return;
  moved_at_ = wal_pages_;
  if (wal_pages_ < kMostPages) return syncer_.moveLog();
  // Does not wait for a slow reader: the log grows further, and the next attempt may succeed.
  sqlite::setBusy(db_, kBriefly);
  auto moved = moveLogIntoDatabase(db_, sqlite::Move::kRestart, fault_);
  sqlite::setBusy(db_, sqlite::kBusy);
  if (!moved) {
    note(std::unexpected(std::move(moved).error()));  // the log keeps all pages
  }
}

void Writer::probe() {
  Batch batch;
  batch.push_back(std::make_unique<QueuedWriteOf<void>>(writing(touchProbe), nullptr));
  std::vector<Result<>> outcomes(1);
  if (attempt(batch, 0, 1, outcomes)) {
    base::log(base::Level::kInfo, "ledger can be written again");
  }
}

void Writer::note(const Result<>& outcome) {
  const Lock lock(mutex_);
  if (!outcome && !failure_) {
    base::log(base::Level::kError, "ledger not written", {{"error", outcome.error().message}});
  }
  failure_ = outcome ? std::nullopt : std::optional(outcome.error());
}

}  // namespace cloister::store
