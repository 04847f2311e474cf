// SPDX-License-Identifier: Apache-2.0
// Tests which sandboxes are made ahead, for which requests, and for how long; with real sandboxes.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "async/spawn.h"
#include "sandbox/pool/pool_fixture.h"

namespace cloister::runtime {
namespace {

TEST_F(PoolTest, ASingleRunPaysForNoSecondSandbox) {
  const auto live = claim(limits_);
  pool_->refill();
  EXPECT_TRUE(until([&] { return !pool_->refilling(); }));
  EXPECT_EQ(testbed::slotsInUse(*host_), 1U);
  bury(live);
}

TEST_F(PoolTest, AReadyOneIsClaimedOnce) {
  makeOneReady();
  const auto first = claim(limits_);
  EXPECT_EQ(testbed::slotsInUse(*host_), 1U) << "the ready one was not taken";
  EXPECT_EQ(pool_->ready(), 0U);
  const auto second = claim(limits_);
  EXPECT_NE(first, second);
  EXPECT_EQ(testbed::slotsInUse(*host_), 2U);
  bury(first);
  bury(second);
}

TEST_F(PoolTest, AClaimWaitsForTheOneBeingMade) {
  open(1, Millis{20'000});  // a single slot, so that there can be no other sandbox
  bury(claim(limits_));
  bury(claim(limits_));
  pool_->refill();
  ASSERT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 1; }));
  bury(claim(limits_));
  EXPECT_EQ(served(model::Served::kMade), 2U);
  EXPECT_EQ(served(model::Served::kAwaited) + served(model::Served::kReady), 1U);
}

TEST_F(PoolTest, EveryClaimIsCounted) {
  makeOneReady();
  const auto live = claim(limits_);
  const auto made = claim(anotherKind());
  const auto third = claim(anotherKind());
  EXPECT_FALSE(async::runTask(io_, pool_->claim(limits_, {})));
  model::PoolStats stats = pool_->stats();
  EXPECT_EQ(stats.served, (std::array<uint64_t, 4>{1, 0, 0, 4}));
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.claim.count(), 5U) << "only those that were served";
  EXPECT_GT(stats.claim.sum_micros, 0U);
  EXPECT_EQ(stats.refill.count(), 1U);
  EXPECT_EQ(stats.dead + stats.copies + stats.drained + stats.dying + stats.zygotes, 0U);
  async::spawn(io_.get_executor(), [](std::shared_ptr<Live> gone) -> Task<void> {
    EXPECT_TRUE(co_await gone->bury());
  }(live));
  std::optional<uint32_t> dying;  // set at the beginning of the removal, before its end
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
  ASSERT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 1; }));
  bury(claim(anotherKind()));
}

TEST_F(PoolTest, AsManyAtOnceAsThereArePlaces) {
  constexpr uint32_t kPlaces = 400;  // more requests than fit into the spawner's socket
  open(kPlaces, Millis{20'000});
  const pid_t spawner = newestChild();
  ASSERT_EQ(::kill(spawner, SIGSTOP), 0);  // the spawner is busy
  std::vector<std::shared_ptr<Live>> all;
  for (uint32_t i = 0; i < kPlaces; ++i)
    async::spawn(io_.get_executor(), claimInto(all));
  EXPECT_TRUE(until([&] { return testbed::slotsInUse(*host_) == kPlaces; }));
  ASSERT_EQ(::kill(spawner, SIGCONT), 0);
  ASSERT_TRUE(until([&] { return all.size() == kPlaces; }));
  for (const auto& live : all) {
    if (live) bury(live);
  }
}

TEST_F(PoolTest, PoolsOfOneHostGetEachItsOwn) {
  constexpr uint32_t kEach = 20;
  open(2 * kEach, Millis{20'000});
  const auto other = std::make_shared<Pool>(io_.get_executor(), host_, spawner_);
  std::vector<std::shared_ptr<Live>> all;
  for (uint32_t i = 0; i < kEach; ++i) {
    async::spawn(io_.get_executor(), claimInto(all));
    async::spawn(io_.get_executor(), claimInto(all, *other));
  }
  ASSERT_TRUE(until([&] { return all.size() == 2 * kEach; }));
  while (!all.empty()) {
    const auto live = all.back();
    all.pop_back();
    live->kill();
    EXPECT_TRUE(until([&] { return !live->waiting(); }));
    for (const auto& left : all)
      ASSERT_TRUE(left->waiting()) << "its process was ended for another";
    bury(live);
  }
}

TEST_F(PoolTest, ASpawnerThatIsStoppedIsReplaced) {
  patience_ = Millis{1000};
  open(4, Millis{20'000});
  makeOneReady();
  const pid_t stopped = newestChild();
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  std::vector<std::shared_ptr<Live>> all;
  for (int i = 0; i < 4; ++i)
    async::spawn(io_.get_executor(), claimInto(all));
  ASSERT_TRUE(until([&] { return all.size() == 4; }));
  EXPECT_NE(newestChild(), stopped);
  EXPECT_EQ(served(model::Served::kMade), 2U + 3U) << "the one that stood ready needed nobody";
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_TRUE(all[i]->waiting());
  for (const auto& live : all)
    bury(live);
  EXPECT_EQ(testbed::slotsInUse(*host_), 0U);
}

TEST_F(PoolTest, APlaceWaitsForItsCgroup) {
  const auto live = claim(limits_);
  if (!testbed::hasGroups(*host_)) {
    bury(live);
    GTEST_SKIP() << "no cgroups";
  }
  // A directory inside keeps the kernel from removing the cgroup.
  const std::string joined = "/proc/self/fd/" + std::to_string(live->group()->joinFds().front());
  const auto busy = std::filesystem::read_symlink(joined).parent_path() / "busy";
  ASSERT_TRUE(std::filesystem::create_directory(busy));
  const auto buried = async::runTask(io_, live->bury());
  EXPECT_FALSE(buried);
  EXPECT_EQ(testbed::slotsInUse(*host_), 1U) << "given back with something of it left";
  EXPECT_EQ(pool_->stats().dying, 1U);
  ASSERT_TRUE(std::filesystem::remove(busy));
  EXPECT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 0; })) << "lost for ever";
  EXPECT_EQ(pool_->stats().dying, 0U);
}

TEST_F(PoolTest, TheCgroupGetsTheLimitsOfTheClaim) {
  makeOneReady();
  model::Limits other = limits_;
  other.pids = 7;
  other.cpu_millis = 250;
  const auto live = claim(other);
  EXPECT_EQ(testbed::slotsInUse(*host_), 1U) << "it differs in what the cgroup limits only";
  EXPECT_EQ(live->limits(), other);
  bury(live);
}

TEST_F(PoolTest, WhatIsBuiltInMakesAnotherKind) {
  makeOneReady();
  const model::Limits other = anotherKind();
  const auto live = claim(other);
  EXPECT_EQ(testbed::slotsInUse(*host_), 2U);
  bury(live);
}

TEST_F(PoolTest, AReadyOneYieldsItsPlace) {
  makeOneReady();
  const model::Limits other = anotherKind();
  const auto a = claim(other);
  const auto b = claim(other);
  const auto c = claim(other);
  EXPECT_EQ(testbed::slotsInUse(*host_), 3U);
  const auto none = async::runTask(io_, pool_->claim(other, {}));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  for (const auto& live : {a, b, c})
    bury(live);
}

TEST_F(PoolTest, ADeadOneIsNotServed) {
  makeOneReady();
  ASSERT_TRUE(host_->root()->renew());  // the old spawner goes when its last sandbox does
  const auto live = claim(limits_);
  EXPECT_TRUE(live->waiting());
  EXPECT_EQ(pool_->stats().served[0], 0U);
  EXPECT_EQ(live->root(), host_->spawner());
  bury(live);
  EXPECT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 0; }));
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
  do {  // the sandbox looks alive until the runner reports the end
    if (live) bury(live);
    live = claim(limits_, "key");
    ASSERT_TRUE(live);
  } while (live->ahead() != Live::Ahead::kNone);
  bury(live);
  for (int i = 0; i < 100 && pool_->stats().dead == 0; ++i) {
    pool_->refill();
    ASSERT_TRUE(until([&] { return pool_->ready() > 0; }));
    bury(claim(anotherKind()));  // making another kind takes longer than the end
    bury(claim(limits_, "key"));
  }
  EXPECT_GT(pool_->stats().dead, 0U);
}

TEST_F(PoolTest, KindsShareTheBound) {
  for (int i = 0; i < 3; ++i)
    bury(claim(limits_));  // the target is two, the bound
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
  EXPECT_EQ(testbed::slotsInUse(*host_), 1U);
  EXPECT_EQ(live->ahead(), Live::Ahead::kNone);
  bury(live);
  bury(claim(limits_, "key"));
  pool_->refill();
  ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  const auto own = claim(limits_, "key");
  EXPECT_EQ(own->ahead(), Live::Ahead::kAtFifo) << "plain ones did not hide that it wants its own";
  bury(own);
}

TEST_F(PoolTest, WhatNobodyWantsIsGivenUp) {
  open(3, Millis{300});
  for (int i = 0; i < 100 && pool_->ready() == 0; ++i) {  // a period may end in between
    bury(claim(limits_));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  }
  EXPECT_EQ(pool_->ready(), 1U);
  EXPECT_TRUE(until([&] { return pool_->ready() == 0 && testbed::slotsInUse(*host_) == 0; }));
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
  EXPECT_TRUE(until([&] { return pool_->ready() == 0 && testbed::slotsInUse(*host_) == 0; }));
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
  const size_t before = testbed::slotsInUse(*host_);
  int periods = 0;
  EXPECT_TRUE(until([&] { return ++periods > 100; })) << "several periods";
  EXPECT_EQ(pool_->ready(), 1U);
  EXPECT_EQ(testbed::slotsInUse(*host_), before);
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
  EXPECT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 0; }));
}

}  // namespace
}  // namespace cloister::runtime
