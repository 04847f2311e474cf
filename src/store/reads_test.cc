// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <future>
#include <latch>
#include <semaphore>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/file.h"
#include "store/agent_store.h"
#include "store/document_store.h"
#include "store/memory_store.h"
#include "store/open.h"
#include "store/quota_store.h"
#include "store/root_store.h"
#include "store/sql/engine.h"
#include "store/store_testing.h"

namespace cloister::store {
namespace {

using testing::queued;
using testing::TempDir;

TEST(ReadPool, RefusesMoreThanMayWait) {
  std::counting_semaphore<> go(0);
  std::latch begun(1);
  ReadPool pool(1, 2);
  int done = 0;
  ASSERT_TRUE(pool.add(ReadFor::kRequest, [&] {
    begun.count_down();
    go.acquire();
  }));
  begun.wait();  // the only thread is taken
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(pool.add(ReadFor::kRequest, [&] { ++done; }));
  const auto refused = pool.add(ReadFor::kRequest, [&] { ++done; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(refused.error().retry_after_seconds, 1);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("2 reads wait already"));
  // The service's own reads have room of their own, which is bounded, too.
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(pool.add(ReadFor::kService, [&] { ++done; }));
  EXPECT_FALSE(pool.add(ReadFor::kService, [&] { ++done; }));
  std::promise<void> last;
  go.release();
  while (!pool.add(ReadFor::kRequest, [&] { last.set_value(); }))
    std::this_thread::yield();
  last.get_future().wait();  // reads run in order
  EXPECT_EQ(done, 4);
}

TEST(ReadPool, AStopDropsWhatWaitsAndAwaitsTheRest) {
  std::counting_semaphore<> go(0);
  std::latch begun(1);
  bool ended = false;
  bool ran = false;
  const auto kept = std::make_shared<int>();
  ReadPool pool(1, 2);
  ASSERT_TRUE(pool.add(ReadFor::kRequest, [&] {
    begun.count_down();
    go.acquire();
    ended = true;
  }));
  begun.wait();
  ASSERT_TRUE(pool.add(ReadFor::kRequest, [&ran, kept] { ran = true; }));
  std::thread other([&] {
    while (pool.add(ReadFor::kService, [kept] {}))
      std::this_thread::yield();  // until the pool is stopped, or full of them
    go.release();
  });
  pool.stop();
  other.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(ran);
  EXPECT_EQ(kept.use_count(), 1) << "what was dropped is gone";
  EXPECT_EQ(pool.add(ReadFor::kService, [] {}).error().code, Code::kUnavailable);
}

enum class Way : uint8_t { kAtOnce, kPool, kPower };

class Reading : public ::testing::TestWithParam<Way> {
 protected:
  Reading() {
    SqliteOptions options;
    options.path = dir_.file("ledger.db");
    options.pool_reads = GetParam() == Way::kPool;
    options.durability = GetParam() == Way::kPower ? Durability::kPower : Durability::kProcess;
    options.waiting_reads = 1;
    options.read_threads = 1;
    store_ = openSqlite(options).value();
  }
  template <class T>
  T now(Task<T> task) {
    return async::runTask(io_, std::move(task));
  }

  TempDir dir_;
  boost::asio::io_context io_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, Reading, ::testing::Values(Way::kAtOnce, Way::kPool, Way::kPower),
                         [](const auto& param) {
                           return param.param == Way::kAtOnce ? "AtOnce"
                                  : param.param == Way::kPool ? "Pool"
                                                              : "Power";
                         });

TEST_P(Reading, AwaitsWhatTheMethodReturns) {
  const NewExecution request = queued();
  ASSERT_TRUE(testing::finished(*store_, request));
  const Scope all = Scope::allTenants();
  EXPECT_EQ(now(store_->reading(&Reads::get, all, request.execution.id))->out.bytes, "hi\n");
  EXPECT_EQ(now(store_->readingForService(&Reads::get, all, "none")).error().code, Code::kNotFound);
  EXPECT_EQ(now(store_->scanning(&Reads::list, all, ListQuery{}))->size(), 1U);
}

// A method of each part, and a function.
TEST_P(Reading, KnowsThePartsOfTheLedger) {
  const Scope all = Scope::allTenants();
  const DocumentReader reader{.tenant = "acme"};
  EXPECT_EQ(now(store_->reading(&AgentStore::sandbox, all, AgentName{"acme", "a"})).error().code,
            Code::kNotFound);
  EXPECT_EQ(now(store_->reading(&MemoryStore::get, all, "ses_1", "k")).error().code,
            Code::kNotFound);
  EXPECT_TRUE(now(store_->reading(&QuotaStore::all))->empty());
  EXPECT_TRUE(now(store_->reading(&SecretStore::list, "acme", "", 10U))->empty());
  EXPECT_TRUE(now(store_->reading(&Escalations::count)));
  EXPECT_TRUE(now(store_->reading(&DocumentStore::list, reader, DocumentQuery{}))->empty());
  EXPECT_FALSE(now(store_->reading(&RootStore::newest))->has_value());
  EXPECT_FALSE(now(store_->reading(isRevoked, "key_none")).value());
}

TEST_P(Reading, RunsAtOnceWhereReadsNeverWait) {
  const auto thread = [](Reads& /*ledger*/) -> Result<std::thread::id> {
    return std::this_thread::get_id();
  };
  const bool at_once = GetParam() == Way::kAtOnce;
  EXPECT_EQ(now(store_->reading(thread)) == std::this_thread::get_id(), at_once);
  EXPECT_EQ(now(store_->readingForService(thread)) == std::this_thread::get_id(), at_once);
  EXPECT_NE(now(store_->scanning(thread)), std::this_thread::get_id()) << "it takes long";
}

TEST_P(Reading, KeepsTheWaitingCallerUntilTheReadHasEnded) {
  std::string text(1000, 'x');
  const auto slow = [&text](Reads& ledger) -> Result<size_t> {
    TRY(ledger.keys(Scope::allTenants()));
    return text.size();
  };
  EXPECT_EQ(now(store_->scanning(slow)), 1000U);
  store_->stopReads();
  EXPECT_EQ(now(store_->scanning(slow)).error().code, Code::kUnavailable);
}

TEST_P(Reading, ARequestBeyondTheBoundIsRefused) {
  std::counting_semaphore<> go(0);
  std::latch begun(1);
  std::vector<Result<int>> results;
  const auto read = [&](std::function<void()> what) -> Task<void> {
    results.push_back(co_await store_->scanning([&](Reads& /*ledger*/) -> Result<int> {
      what();
      return 1;
    }));
  };
  async::spawn(io_.get_executor(), read([&] {
                 begun.count_down();
                 go.acquire();
               }));
  io_.poll();
  begun.wait();
  async::spawn(io_.get_executor(), read([] {}));  // waits
  async::spawn(io_.get_executor(), read([] {}));
  io_.poll();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].error().code, Code::kUnavailable);
  go.release();
  io_.run();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1], 1);
  EXPECT_EQ(results[2], 1);
}

// The disk is slow, and the executor goes on meanwhile.
TEST(ReadingPower, WaitsForTheDiskWithoutTheThread) {
  std::counting_semaphore<> disk(0);
  std::binary_semaphore syncing(0);
  const TempDir dir;
  SqliteOptions options;
  options.path = dir.file("ledger.db");
  options.durability = Durability::kPower;
  std::atomic<bool> slow = false;
  auto store = openSqliteWith(options, [&](int fd) {
                 if (slow.exchange(false)) {
                   syncing.release();
                   disk.acquire();
                 }
                 return base::syncData(fd);
               }).value();
  const NewExecution request = queued();
  ASSERT_TRUE(testing::accept(*store, request));
  slow = true;
  std::promise<void> written;
  store->write(writing(updateExecution, request.execution, testing::event("x", request.execution)),
               [&](const Result<void>& /*result*/) { written.set_value(); });
  syncing.acquire();  // committed, and not yet on the disk
  boost::asio::io_context io;
  std::optional<Result<model::Execution>> found;
  bool went_on = false;
  const auto read = [&]() -> Task<void> {  // outlives the coroutine, which refers to it
    found = co_await store->reading(&Reads::get, Scope::allTenants(), request.execution.id);
  };
  async::spawn(io.get_executor(), read());
  boost::asio::post(io, [&] { went_on = true; });
  io.poll();
  EXPECT_TRUE(went_on);
  EXPECT_FALSE(found) << "what it shows is not on the disk";
  disk.release();
  io.run();
  EXPECT_TRUE(found && *found);
  written.get_future().wait();
}

}  // namespace
}  // namespace cloister::store
