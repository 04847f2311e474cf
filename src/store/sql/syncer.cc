// SPDX-License-Identifier: Apache-2.0
#include "store/sql/syncer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "base/log.h"
#include "store/anchor.h"
#include "store/sql/checkpoint_file.h"

namespace cloister::store {

Result<> syncDirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || base::syncFile(fd.get()) != 0) return failErrno("syncing the directory " + directory);
  return {};
}

void Fault::set(Error error) {
  base::log(base::Level::kError, "ledger failed for good", {{"error", error.message}});
  const Lock lock(mutex_);
  if (!error_) error_ = std::move(error);
}

Result<> Fault::check() const {
  const Lock lock(mutex_);
  if (!error_) return {};
  return std::unexpected(*error_);
}

Result<> moveLogIntoDatabase(Database& db, sqlite::Move how, Fault& fault) {
  bool lost_sync = false;
  const auto moved = sqlite::moveLog(db, how, lost_sync);
  if (moved) return {};
  if (lost_sync) fault.set(moved.error());
  return std::unexpected(moved.error());
}

Result<std::unique_ptr<Syncer>> Syncer::start(Options options, Fault& fault) {
  const std::string path = options.ledger + "-wal";
  Database db = TRY(sqlite::open(options.ledger));
  Fd wal(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!wal) return failErrno("opening " + path);
  TRY(syncDirectoryOf(path));
  std::unique_ptr<Syncer> made(
      new Syncer(std::move(options), fault, std::move(wal), std::move(db)));
  made->thread_ = std::thread([raw = made.get()] { raw->loop(); });
  return made;
}

Syncer::Syncer(Options options, Fault& fault, Fd wal, Database db)
    : options_(std::move(options)), fault_(fault), wal_(std::move(wal)), db_(std::move(db)) {}

Syncer::~Syncer() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notifyOne();
  if (thread_.joinable()) thread_.join();
}

void Syncer::announce(const std::vector<std::unique_ptr<QueuedWrite>>& batch) {
  if (options_.durability == Durability::kProcess) return;
  const Lock lock(mutex_);
  ++announced_;
  for (const auto& write : batch)
    unsynced_[write->about.subject] = announced_;
}

void Syncer::hand(std::vector<Finished> batch, std::optional<Checkpoint> head,
                  std::optional<Checkpoint> checkpoint) {
  const bool at_once = options_.durability == Durability::kProcess;
  if (!at_once || checkpoint) {
    const Lock lock(mutex_);
    if (checkpoint) waiting_.checkpoint = std::move(checkpoint);
    if (!at_once) {
      while (waiting_.batch.size() >= options_.backlog)
        settled_.wait(mutex_);
      ++handed_;
      if (head) waiting_.head = std::move(head);
      for (const Finished& one : batch)
        unsynced_[one.write->about.subject] = handed_;
      std::ranges::move(batch, std::back_inserter(waiting_.batch));
    }
    wake_.notifyOne();
  }
  if (!at_once) return;
  finish(batch, anchor(head));
}

void Syncer::finish(std::vector<Finished>& batch, const Result<>& kept) {
  for (Finished& one : batch) {
    if (!kept) one.outcome = kept;
    one.write->finish(std::move(one.outcome));
  }
}

// If anchoring fails, the ledger holds the entry, but its write is not acknowledged. The next
// commit first anchors the head (Anchor::reserve).
Result<> Syncer::anchor(const std::optional<Checkpoint>& head) const {
  return head && options_.anchor != nullptr ? options_.anchor->append(*head) : Result<>();
}

void Syncer::moveLog() {
  const Lock lock(mutex_);
  waiting_.move = true;
  wake_.notifyOne();
}

Result<> Syncer::settle(const std::string& execution) {
  if (options_.durability == Durability::kProcess) return {};
  {
    const Lock lock(mutex_);
    uint64_t needed = announced_;
    if (!execution.empty()) {
      const auto found = unsynced_.find(execution);
      if (found == unsynced_.end()) return {};
      needed = found->second;
    }
    while (synced_ < needed)
      settled_.wait(mutex_);
  }
  return fault_.check();
}

void Syncer::loop() {
  for (;;) {
    Work work = take();
    if (work.none()) return;
    perform(std::move(work));
  }
}

// All there is to do; nothing at the end.
Syncer::Work Syncer::take() {
  const Lock lock(mutex_);
  while (!stop_ && waiting_.none())
    wake_.wait(mutex_);
  Work work = std::exchange(waiting_, {});
  work.upto = handed_;
  return work;
}

void Syncer::perform(Work work) {
  const bool wait = !work.batch.empty() || work.checkpoint;
  const Result<> synced = wait ? sync() : Result<>{};
  // The anchor names only synced entries: a power failure between sync and anchor loses no anchored
  // entry.
  const Result<> kept = synced ? anchor(work.head) : synced;
  {
    const Lock lock(mutex_);
    synced_ = work.upto;
    std::erase_if(unsynced_, [&](const auto& entry) { return entry.second <= work.upto; });
    settled_.notifyAll();
  }
  finish(work.batch, kept);
  if (synced && work.checkpoint) record(*work.checkpoint);
  if (!work.move) return;
  // The log keeps pages that could not be moved, so nothing is lost; a full disk shows in the
  // writes.
  if (const auto moved = moveLogIntoDatabase(db_, sqlite::Move::kPassive, fault_); !moved) {
    base::log(base::Level::kWarn, "ledger log not moved", {{"error", moved.error().message}});
  }
}

// A failed line loses nothing: the next line covers the same entries, and the ledger has the signed
// head.
void Syncer::record(const Checkpoint& checkpoint) {
  if (options_.checkpoint_file.empty()) return;
  if (const auto added = appendCheckpoint(options_.checkpoint_file, checkpoint); !added) {
    base::log(base::Level::kError, "audit checkpoint not written",
              {{"error", added.error().message}});
  }
}

Result<> Syncer::sync() {
  TRY(fault_.check());
  if (options_.sync(wal_.get()) == 0) return {};
  fault_.set(base::errnoError("syncing the ledger (it must be reopened)", errno));
  return fault_.check();
}

}  // namespace cloister::store
