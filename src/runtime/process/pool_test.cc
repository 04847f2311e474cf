// SPDX-License-Identifier: Apache-2.0
// What is made ahead, for whom, and for how long; with real sandboxes.
#include "runtime/process/pool.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "runtime/process/testbed.h"
#include "runtime/spawn.h"

namespace cloister::runtime {
namespace {

pid_t newestChild() {
  std::istringstream words(base::readFile("/proc/thread-self/children").value_or(""));
  pid_t child = 0;
  while (words >> child) {
  }
  return child;
}

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { open(3, Millis{20'000}); }
  void TearDown() override { std::filesystem::remove_all(proc_); }

  void open(uint32_t max_sandboxes, Millis idle, uint32_t floor = 0) {
    ProcessConfig config = testbed::config();
    config.ready_floor = floor;
    config.pressure = {.spare_memory = 10, .cpu_pressure = 50, .cpus = 1, .proc = proc_};
    config.ready = 2;
    config.ready_idle = idle;
    config.max_sandboxes = max_sandboxes;
    config.languages = {{"shell", {"/bin/sh", "main.sh"}}};
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    host_ = *std::move(host);
    pool_ = std::make_shared<Pool>(io_.get_executor(), host_);
  }

  // Lets the io_context run until `condition` holds, for a minute at most.
  bool until(const std::function<bool()>& condition) {
    const auto waited = [&]() -> Task<bool> {
      boost::asio::steady_timer pause(io_);
      for (int i = 0; i < 12'000; ++i) {
        if (condition()) co_return true;
        pause.expires_after(Millis{5});
        co_await pause.async_wait(boost::asio::use_awaitable);
      }
      co_return false;
    };
    return runTask(io_, waited());
  }

  std::shared_ptr<Live> claim(const model::Limits& limits, const std::string& key = "") {
    auto live = runTask(io_, pool_->claim(limits, {.key = key}));
    EXPECT_TRUE(live) << live.error().message;
    return live ? *live : nullptr;
  }

  Task<void> claimInto(std::vector<std::shared_ptr<Live>>& all) {
    auto live = co_await pool_->claim(limits_, {});
    EXPECT_TRUE(live) << live.error().message;
    all.push_back(live ? *live : nullptr);
  }

  void bury(const std::shared_ptr<Live>& live) { EXPECT_TRUE(runTask(io_, live->bury())); }

  // For which something else is built in.
  [[nodiscard]] static model::Limits anotherKind() {
    model::Limits limits;
    limits.open_files = 77;
    return limits;
  }

  [[nodiscard]] uint64_t served(model::Served how) const {
    return pool_->stats().served[static_cast<size_t>(how)];
  }

  // Two claims, of which the second wants one more, and that one made.
  void makeOneReady() {
    bury(claim(limits_));
    bury(claim(limits_));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
    ASSERT_EQ(pool_->ready(), 1U);
  }

  // What the pool is told of the machine.
  void memory(int available) {
    put("meminfo", "MemTotal: 100 kB\nMemAvailable: " + std::to_string(available) + " kB\n");
  }
  void runnable(int count) { put("loadavg", "1.0 1.0 1.0 " + std::to_string(count) + "/98 7\n"); }
  void put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::makeDirs(proc_));
    ASSERT_TRUE(base::writeFileAtomic(proc_ + "/" + name, text, 0644));
  }

  std::string proc_ = "/tmp/cloister-test-" + base::randomHex(8);
  boost::asio::io_context io_{1};
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<Pool> pool_;
  model::Limits limits_;
};

TEST_F(PoolTest, ASingleRunPaysForNoSecondSandbox) {
  const auto live = claim(limits_);
  pool_->refill();
  EXPECT_TRUE(until([&] { return !pool_->refilling(); }));
  EXPECT_EQ(host_->slotsInUse(), 1U);
  bury(live);
}

TEST_F(PoolTest, AReadyOneIsClaimedOnce) {
  makeOneReady();
  const auto first = claim(limits_);
  EXPECT_EQ(host_->slotsInUse(), 1U) << "the ready one was not taken";
  EXPECT_EQ(pool_->ready(), 0U);
  const auto second = claim(limits_);
  EXPECT_NE(first, second);
  EXPECT_EQ(host_->slotsInUse(), 2U);
  bury(first);
  bury(second);
}

TEST_F(PoolTest, AClaimWaitsForTheOneBeingMade) {
  open(1, Millis{20'000});  // so that there can be no other
  bury(claim(limits_));
  bury(claim(limits_));
  pool_->refill();
  ASSERT_TRUE(until([&] { return host_->slotsInUse() == 1; }));
  bury(claim(limits_));
  EXPECT_EQ(served(model::Served::kMade), 2U);
  EXPECT_EQ(served(model::Served::kAwaited) + served(model::Served::kReady), 1U);
}

TEST_F(PoolTest, EveryClaimIsCounted) {
  makeOneReady();
  const auto live = claim(limits_);
  const auto made = claim(anotherKind());
  const auto third = claim(anotherKind());
  EXPECT_FALSE(runTask(io_, pool_->claim(limits_, {})));
  model::PoolStats stats = pool_->stats();
  EXPECT_EQ(stats.served, (std::array<uint64_t, 4>{1, 0, 0, 4}));
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.claim.count(), 5U) << "only those that were served";
  EXPECT_GT(stats.claim.sum_micros, 0U);
  EXPECT_EQ(stats.refill.count(), 1U);
  EXPECT_EQ(stats.dead + stats.copies + stats.drained + stats.dying + stats.zygotes, 0U);
  runtime::spawn(io_.get_executor(), [](std::shared_ptr<Live> gone) -> Task<void> {
    EXPECT_TRUE(co_await gone->bury());
  }(live));
  std::optional<uint32_t> dying;  // once it has been begun, before it can have ended
  boost::asio::post(io_, [&] { dying = pool_->stats().dying; });
  EXPECT_TRUE(until([&] { return dying && pool_->stats().dying == 0; }));
  EXPECT_EQ(dying, 1U);
  bury(made);
  bury(third);
}

TEST_F(PoolTest, EveryKindIsTold) {
  pool_->learn(limits_, {.key = "key"}, {"main.sh", {"/bin/sh", "main.sh"}, {}});
  model::settle(limits_);
  makeOneReady();
  bury(claim(limits_, "key"));
  bury(claim(anotherKind(), "unknown"));
  std::vector<model::PoolKind> kinds = pool_->stats().kinds;
  ASSERT_EQ(kinds.size(), 4U) << "the unsettled limits are a kind of their own";
  EXPECT_EQ(kinds[0].language, "shell");
  EXPECT_FALSE(kinds[0].default_limits);
  EXPECT_EQ(kinds[1].language, "any");
  EXPECT_TRUE(kinds[1].default_limits);
  EXPECT_EQ(kinds[1].scratch_bytes, model::scratchBytes(limits_));
  EXPECT_EQ(kinds[1].wanted, 1U);
  EXPECT_EQ(kinds[2].language, "shell");
  EXPECT_EQ(kinds[3].language, "other");
}

TEST_F(PoolTest, AClaimOfAnotherKindWaitsForThePlaceOfTheOneBeingMade) {
  open(1, Millis{20'000});
  bury(claim(limits_));
  bury(claim(limits_));
  pool_->refill();
  ASSERT_TRUE(until([&] { return host_->slotsInUse() == 1; }));
  bury(claim(anotherKind()));
}

TEST_F(PoolTest, AsManyAtOnceAsThereArePlaces) {
  constexpr uint32_t kPlaces = 400;  // more requests than the spawner's socket holds
  open(kPlaces, Millis{20'000});
  const pid_t spawner = newestChild();
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);  // it has other things to do
  std::vector<std::shared_ptr<Live>> all;
  for (uint32_t i = 0; i < kPlaces; ++i)
    spawn(io_.get_executor(), claimInto(all));
  EXPECT_TRUE(until([&] { return host_->slotsInUse() == kPlaces; }));
  ASSERT_EQ(::kill(spawner, SIGCONT), 0);
  ASSERT_TRUE(until([&] { return all.size() == kPlaces; }));
  for (const auto& live : all) {
    if (live) bury(live);
  }
}

TEST_F(PoolTest, TheCgroupGetsTheLimitsOfTheClaim) {
  makeOneReady();
  model::Limits other = limits_;
  other.pids = 7;
  other.cpu_millis = 250;
  const auto live = claim(other);
  EXPECT_EQ(host_->slotsInUse(), 1U) << "it differs in what the cgroup limits only";
  EXPECT_EQ(live->limits(), other);
  bury(live);
}

TEST_F(PoolTest, WhatIsBuiltInMakesAnotherKind) {
  makeOneReady();
  const model::Limits other = anotherKind();
  const auto live = claim(other);
  EXPECT_EQ(host_->slotsInUse(), 2U);
  bury(live);
}

TEST_F(PoolTest, AReadyOneYieldsItsPlace) {
  makeOneReady();
  const model::Limits other = anotherKind();
  const auto a = claim(other);
  const auto b = claim(other);
  const auto c = claim(other);
  EXPECT_EQ(host_->slotsInUse(), 3U);
  const auto none = runTask(io_, pool_->claim(other, {}));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  for (const auto& live : {a, b, c})
    bury(live);
}

TEST_F(PoolTest, ADeadOneIsNotServed) {
  makeOneReady();
  ASSERT_TRUE(host_->renew());  // the old spawner goes when its last sandbox does
  const auto live = claim(limits_);
  EXPECT_TRUE(live->waiting());
  EXPECT_EQ(pool_->stats().served[0], 0U);
  EXPECT_EQ(live->root(), host_->spawner());
  bury(live);
  EXPECT_TRUE(until([&] { return host_->slotsInUse() == 0; }));
}

TEST_F(PoolTest, AnInterpreterIsStartedAheadForItsKey) {
  pool_->learn(limits_, {.key = "key"}, {"main.sh", {"/bin/sh", "main.sh"}, {}});
  bury(claim(limits_, "key"));
  bury(claim(limits_, "key"));
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 1; }));
  const auto other = claim(limits_);
  EXPECT_EQ(other->ahead(), Live::Ahead::kNone) << "it was not for this one";
  const auto live = claim(limits_, "key");
  EXPECT_EQ(live->ahead(), Live::Ahead::kAtFifo);
  bury(other);
  bury(live);
}

TEST_F(PoolTest, AnInterpreterThatEndedIsNotServed) {
  pool_->learn(limits_, {.key = "key"}, {"main.sh", {"/bin/true"}, {}});
  bury(claim(limits_, "key"));
  bury(claim(limits_, "key"));
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 1; }));
  std::shared_ptr<Live> live;
  do {  // until the runner has said that it ended, it looks alive
    if (live) bury(live);
    live = claim(limits_, "key");
    ASSERT_TRUE(live);
  } while (live->ahead() != Live::Ahead::kNone);
  bury(live);
  for (int i = 0; i < 100 && pool_->stats().dead == 0; ++i) {
    pool_->refill();
    ASSERT_TRUE(until([&] { return pool_->ready() > 0; }));
    bury(claim(anotherKind()));  // which takes longer than it does to end
    bury(claim(limits_, "key"));
  }
  EXPECT_GT(pool_->stats().dead, 0U);
}

TEST_F(PoolTest, KindsShareTheBound) {
  for (int i = 0; i < 3; ++i)
    bury(claim(limits_));  // wants two, which is the bound
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 2; }));
  const model::Limits other = anotherKind();
  bury(claim(other));
  bury(claim(other));
  pool_->refill();
  ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  const size_t before = pool_->ready();
  const auto live = claim(other);
  EXPECT_EQ(pool_->ready(), before - 1) << "none was ready for it";
  bury(live);
}

TEST_F(PoolTest, APlainOneServesAnyKey) {
  makeOneReady();
  pool_->learn(limits_, {.key = "key"}, {"main.sh", {"/bin/sh", "main.sh"}, {}});
  const auto live = claim(limits_, "key");
  EXPECT_EQ(host_->slotsInUse(), 1U);
  EXPECT_EQ(live->ahead(), Live::Ahead::kNone);
  bury(live);
  bury(claim(limits_, "key"));
  pool_->refill();
  ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  const auto own = claim(limits_, "key");
  EXPECT_EQ(own->ahead(), Live::Ahead::kAtFifo) << "plain ones did not hide that it wants its own";
  bury(own);
}

// A real zygote, with a preparation that is `preparation`.
class ZygoteTest : public PoolTest {
 protected:
  void SetUp() override { open(base::shareDir() + "/languages/zygote/python.py"); }

  void open(const std::string& preparation) {
    if (::access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no python3";
    ProcessConfig config = testbed::config();
    config.ready = 2;
    config.max_sandboxes = 4;
    config.zygote_copies = 2;
    config.interpreters = {{kPython.argv,
                            {"json", "no_such_module"},
                            base::programDir() + "/cloister-zygote-python.so",
                            preparation}};
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    host_ = *std::move(host);
    pool_ = std::make_shared<Pool>(io_.get_executor(), host_);
  }

  // One with a copy, after as many as it takes the zygote to start; or none.
  std::shared_ptr<Live> claimCopy() {
    pool_->learn(limits_, {.key = "key"}, kPython);
    for (int i = 0; i < 500; ++i) {
      const auto live = claim(limits_, "key");
      if (!live || live->ahead() == Live::Ahead::kCopied) return live;
      bury(live);
    }
    return nullptr;
  }

  const Prestart kPython{"main.py", {"python3", "main.py"}, {"PATH=/usr/bin"}};
};

TEST_F(ZygoteTest, ACopyIsMadeWithTheSandbox) {
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  EXPECT_TRUE(live->waiting());
  EXPECT_EQ(served(model::Served::kCopied), 1U);
  EXPECT_EQ(pool_->stats().copies, 1U);
  EXPECT_EQ(pool_->stats().zygotes, 1U);
  bury(live);
  EXPECT_EQ(host_->slotsInUse(), 0U);
}

TEST_F(ZygoteTest, TheLimitsOfAProgramAreNotThoseOfItsStart) {
  const auto first = claimCopy();
  ASSERT_TRUE(first);
  bury(first);
  model::Limits tight = limits_;
  tight.memory_bytes = 128 << 10;  // less than a start takes
  const auto refused = runTask(io_, pool_->claim(tight, {.key = "key"}));
  if (refused) bury(*refused);
  const auto next = claim(limits_, "key");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->ahead(), Live::Ahead::kCopied) << "the zygote, whose memory it shared, is gone";
  bury(next);
}

TEST_F(ZygoteTest, AnotherTakesItsPlaceInTime) {
  const auto first = claimCopy();
  ASSERT_TRUE(first);
  for (int i = 0; i < 500; ++i) {
    const auto live = claim(limits_, "key");
    const bool another =
        live->ahead() == Live::Ahead::kCopied && live->spawner() != first->spawner();
    bury(live);
    if (another) break;
    ASSERT_LT(i, 499);
  }
  EXPECT_TRUE(first->waiting()) << "it lives as long as its sandboxes";
  bury(first);
}

TEST_F(ZygoteTest, OneThatDiesIsNotMissed) {
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  live->spawner()->kill();
  EXPECT_TRUE(until([&] { return !live->waiting(); })) << "its sandboxes end with it";
  bury(live);
  const auto next = claim(limits_, "key");
  ASSERT_TRUE(next);
  EXPECT_NE(next->ahead(), Live::Ahead::kCopied);
  bury(next);
  bool another = false;
  for (int i = 0; i < 12'000 && !another; ++i) {
    const auto later = claim(limits_, "key");
    another = later->ahead() == Live::Ahead::kCopied;
    bury(later);
  }
  EXPECT_TRUE(another);
}

TEST_F(ZygoteTest, WithoutOneThereAreSandboxesAllTheSame) {
  open("/nonexistent");
  pool_->learn(limits_, {.key = "key"}, kPython);
  for (int i = 0; i < 4; ++i)
    bury(claim(limits_, "key"));
}

TEST_F(PoolTest, WhatNobodyWantsIsGivenUp) {
  open(3, Millis{300});
  for (int i = 0; i < 100 && pool_->ready() == 0; ++i) {  // a period may end in between
    bury(claim(limits_));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  }
  EXPECT_EQ(pool_->ready(), 1U);
  EXPECT_TRUE(until([&] { return pool_->ready() == 0 && host_->slotsInUse() == 0; }));
}

TEST_F(PoolTest, ShortMemoryDrainsWhatIsReady) {
  memory(50);
  makeOneReady();
  bury(claim(anotherKind()));
  bury(claim(anotherKind()));
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 2; }));
  for (int i = 0; i < 3; ++i)
    bury(claim(limits_));
  const size_t kept = pool_->ready();
  memory(9);
  EXPECT_TRUE(until([&] { return pool_->ready() == 0 && host_->slotsInUse() == 0; }));
  EXPECT_EQ(pool_->stats().drained, kept);
  pool_->refill();
  EXPECT_TRUE(until([&] { return !pool_->refilling(); }));
  EXPECT_EQ(pool_->ready(), 0U);
  EXPECT_EQ(pool_->stats().held, model::PoolStats::Held::kMemory);
  const auto live = claim(limits_);
  EXPECT_TRUE(live) << "a claim is served all the same";
  bury(live);
  memory(10);
  EXPECT_TRUE(until([&] { return pool_->ready() > 0; })) << "what was kept back is made";
  EXPECT_EQ(pool_->stats().held, model::PoolStats::Held::kNo);
}

TEST_F(PoolTest, TheLeastUsedKindGoesFirst) {
  memory(50);
  makeOneReady();
  for (int i = 0; i < 4; ++i)
    bury(claim(anotherKind()));
  pool_->refill();
  ASSERT_TRUE(until([&] { return !pool_->refilling() && pool_->ready() == 2; }));
  memory(9);
  EXPECT_TRUE(until([&] {
    const model::PoolStats stats = pool_->stats();
    EXPECT_LE(stats.kinds[0].ready, stats.kinds[1].ready);
    return stats.drained == 2;
  }));
}

TEST_F(PoolTest, BusyProcessorsDelayTheRefillAndNoClaim) {
  bury(claim(limits_));
  bury(claim(limits_));
  runnable(3);
  pool_->refill();
  EXPECT_TRUE(until([&] { return !pool_->refilling(); }));
  EXPECT_EQ(pool_->ready(), 0U);
  EXPECT_EQ(pool_->stats().held, model::PoolStats::Held::kCpu);
  bury(claim(limits_));
  EXPECT_EQ(served(model::Served::kMade), 3U);
  runnable(2);
  EXPECT_TRUE(until([&] { return pool_->ready() > 0; }));
}

TEST_F(PoolTest, BusyProcessorsLeaveWhatIsReady) {
  makeOneReady();
  runnable(3);
  bury(claim(limits_));
  EXPECT_EQ(served(model::Served::kReady), 1U);
}

TEST_F(PoolTest, AFloorIsKeptThoughNobodyAsks) {
  open(3, Millis{100}, 1);
  bury(claim(limits_));
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 1; })) << "it was asked for once";
  const size_t before = host_->slotsInUse();
  int periods = 0;
  EXPECT_TRUE(until([&] { return ++periods > 100; })) << "several periods";
  EXPECT_EQ(pool_->ready(), 1U);
  EXPECT_EQ(host_->slotsInUse(), before);
  pool_->drop();
  EXPECT_TRUE(until([&] { return pool_->ready() == 1; })) << "made again";
}

TEST_F(PoolTest, AFloorThatNobodyUsesYields) {
  open(4, Millis{100}, 1);
  model::Limits third;
  third.open_files = 78;
  for (const model::Limits& limits : {limits_, anotherKind()})
    bury(claim(limits));
  pool_->refill();
  ASSERT_TRUE(until([&] { return pool_->ready() == 2; })) << "that is the bound";
  uint32_t got = 0;
  for (int i = 0; i < 1000 && got == 0; ++i) {  // until the others' last use is long ago
    bury(claim(third));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
    got = pool_->stats().kinds[2].ready;
  }
  EXPECT_GE(got, 1U);
  EXPECT_LE(pool_->ready(), 2U);
}

TEST_F(PoolTest, DropGivesUpAll) {
  makeOneReady();
  pool_->drop();
  EXPECT_EQ(pool_->ready(), 0U);
  EXPECT_TRUE(until([&] { return host_->slotsInUse() == 0; }));
}

}  // namespace
}  // namespace cloister::runtime
