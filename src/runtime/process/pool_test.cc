// SPDX-License-Identifier: Apache-2.0
// What is made ahead, for whom, and for how long; with real sandboxes.
#include "runtime/process/pool.h"

#include <unistd.h>

#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "runtime/process/testbed.h"

namespace cloister::runtime {
namespace {

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { open(3, Millis{20'000}); }

  void open(uint32_t max_sandboxes, Millis idle) {
    ProcessConfig config = testbed::config();
    config.ready = 2;
    config.ready_idle = idle;
    config.max_sandboxes = max_sandboxes;
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    host_ = *std::move(host);
    pool_ = std::make_shared<Pool>(io_.get_executor(), host_);
  }

  // Lets the io_context run until `condition` holds, for ten seconds at most.
  bool until(const std::function<bool()>& condition) {
    const auto waited = [&]() -> Task<bool> {
      boost::asio::steady_timer pause(io_);
      for (int i = 0; i < 2000; ++i) {
        if (condition()) co_return true;
        pause.expires_after(Millis{5});
        co_await pause.async_wait(boost::asio::use_awaitable);
      }
      co_return false;
    };
    return runTask(io_, waited());
  }

  std::shared_ptr<Live> claim(const model::Limits& limits, const std::string& key = "") {
    auto live = runTask(io_, pool_->claim(limits, key));
    EXPECT_TRUE(live) << live.error().message;
    return live ? *live : nullptr;
  }

  void bury(const std::shared_ptr<Live>& live) { EXPECT_TRUE(runTask(io_, live->bury())); }

  // For which something else is built in.
  [[nodiscard]] static model::Limits anotherKind() {
    model::Limits limits;
    limits.open_files = 77;
    return limits;
  }

  // Two claims, of which the second wants one more, and that one made.
  void makeOneReady() {
    bury(claim(limits_));
    bury(claim(limits_));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
    ASSERT_EQ(pool_->ready(), 1U);
  }

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
  const auto none = runTask(io_, pool_->claim(other, ""));
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
  EXPECT_EQ(live->root(), host_->spawner());
  bury(live);
  EXPECT_TRUE(until([&] { return host_->slotsInUse() == 0; }));
}

TEST_F(PoolTest, AnInterpreterIsStartedAheadForItsKey) {
  pool_->learn(limits_, "key", {"main.sh", {"/bin/sh", "main.sh"}, {}});
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
  pool_->learn(limits_, "key", {"main.sh", {"/bin/true"}, {}});
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
  pool_->learn(limits_, "key", {"main.sh", {"/bin/sh", "main.sh"}, {}});
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
    pool_->learn(limits_, "key", kPython);
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
  bury(live);
  EXPECT_EQ(host_->slotsInUse(), 0U);
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
}

TEST_F(ZygoteTest, WithoutOneThereAreSandboxesAllTheSame) {
  open("/nonexistent");
  pool_->learn(limits_, "key", kPython);
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

TEST_F(PoolTest, DropGivesUpAll) {
  makeOneReady();
  pool_->drop();
  EXPECT_EQ(pool_->ready(), 0U);
  EXPECT_TRUE(until([&] { return host_->slotsInUse() == 0; }));
}

}  // namespace
}  // namespace cloister::runtime
