// SPDX-License-Identifier: Apache-2.0
#include "store/sql/engine.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/file.h"
#include "base/log.h"
#include "store/anchor_check.h"
#include "store/commit.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/encryption.h"
#include "store/sql/schema.h"
#include "store/sql/sqlite.h"
#include "store/store.h"

namespace cloister::store {
namespace {

Result<Fd> lockLedger(const std::string& path) {
  const std::string name = path + ".lock";
  Fd fd(::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return failErrno("opening " + name);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return failErrno("locking " + name);
  return fail(Code::kConflict, "opening the ledger " + path + ": another process has it open");
}

// Moves the previous run's log into the database and syncs the database. If a failed sync ended the
// previous run, the kernel may show pages that are not on disk.
Result<> settleLog(Database& db, Fault& fault) {
  auto moved = moveLogIntoDatabase(db, sqlite::Move::kTruncate, fault);
  if (moved || moved.error().code != Code::kNoSpace) return moved;
  base::log(base::Level::kWarn, "ledger opened on a full disk", {{"error", moved.error().message}});
  return {};
}

Result<> bringUpToDate(const SqliteOptions& options, Fault& fault) {
  {
    Database db = TRY(sqlite::open(options.path));
    TRY(migrate(db));
    TRY(settleLog(db, fault));
  }
  return encryptAll(options.path, options.cipher);
}

Result<void> renumber(Transaction tx) {
  return tx.chain.renumber(tx.db);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const SqliteOptions& options, SyncFunction sync) {
  auto made = std::make_unique<Engine>();
  made->lock_ = TRY(lockLedger(options.path));
  TRY(bringUpToDate(options, made->fault_));
  Database db = TRY(openWithCipher(options.path, options.cipher));
  Chain chain(options.audit_key);
  std::string problem = TRY(chain.load(db));
  const bool anchors = options.audit_key && !options.anchor_file.empty();
  AnchorFinding anchor;
  if (anchors) {
    anchor = TRY(
        compareWithAnchor(db, chain.head(), options.anchor_file, options.audit_key->verifyKey()));
    TRY(made->openAnchor(options, sync));
  }
  const auto lines = readCheckpoints(options.checkpoint_file);
  if (!lines) problem = lines.error().message;
  if (problem.empty() && !lines->empty()) problem = TRY(compareWithCheckpoint(db, lines->back()));
  if (!anchor.problem.empty()) problem = anchor.problem;  // names the first entry
  PublishedFinding published;
  if (options.audit_key) {
    published = TRY(compareWithPublished(db, chain.head(), options.published_file,
                                         options.audit_key->verifyKey()));
  }
  const uint32_t threads = std::max(1U, options.read_threads);
  TRY(made->readers_.open(options.path, std::max(1U, options.readers) + threads, options.cipher));
  made->syncer_ = TRY(Syncer::start({.ledger = options.path,
                                     .durability = options.durability,
                                     .checkpoint_file = options.checkpoint_file,
                                     .anchor = made->anchor_.get(),
                                     .backlog = options.queue,
                                     .sync = std::move(sync)},
                                    made->fault_));
  const bool known = problem.empty() && !lines->empty();
  const bool old_numbers = chain.head().old_numbers;
  const Writer::Options writing{.queue = options.queue,
                                .queue_bytes = options.queue_bytes,
                                .batch = options.batch,
                                .checkpoint_every = options.checkpoint_every,
                                .checkpointed = known ? lines->back().seq : 0,
                                .anchor = made->anchor_.get()};
  made->writer_ = std::make_unique<Writer>(std::move(db), std::move(chain), writing, *made->syncer_,
                                           made->fault_);
  made->at_once_ = options.durability == Durability::kProcess && !options.pool_reads;
  made->pool_ = std::make_unique<ReadPool>(threads, options.waiting_reads);
  TRY(recordFinding(*made, std::move(problem), anchor, published));
  made->published_loss_ = std::move(published.problem);
  if (old_numbers) made->endOldNumbers();
  return made;
}

// Runs at the upgrade already. After a failure, as on a full disk, Chain::append() retries.
void Engine::endOldNumbers() {
  std::ignore = commit(*this, renumber);
}

Result<> Engine::openAnchor(const SqliteOptions& options, SyncFunction sync) {
  auto opened = Anchor::open({.path = options.anchor_file,
                              .max_bytes = options.anchor_max_bytes,
                              .durability = options.durability,
                              .sync = std::move(sync)});
  if (!opened) return std::unexpected(std::move(opened).error().within("audit.anchor_file"));
  anchor_ = *std::move(opened);
  return {};
}

void Engine::submit(std::unique_ptr<QueuedWrite> write) {
  if (gate_ != nullptr) write = gate_->admit(std::move(write));
  if (write) pass(std::move(write));
}

Result<> Engine::health() {
  if (gate_ != nullptr) TRY(gate_->outage());
  return writer_->health();
}

Result<std::unique_ptr<Store>> openSqliteWith(const SqliteOptions& options, SyncFunction sync) {
  return std::make_unique<Store>(TRY(Engine::open(options, std::move(sync))));
}

Result<std::unique_ptr<Store>> openSqlite(const SqliteOptions& options) {
  return openSqliteWith(options, base::syncData);
}

}  // namespace cloister::store
