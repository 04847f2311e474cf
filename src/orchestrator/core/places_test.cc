// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/places.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

void run(Places& places, Need need) {
  places.takeRun(need);
}

// A session that has its place.
void open(Places& places, const Need& need) {
  places.awaitSession(need);
  places.arrive(need);
}

TEST(Places, KeepsAQuarterForRuns) {
  Places places({.runs = 0, .memory_share = 1});
  for (const auto& [sandboxes, sessions] :
       {std::pair{0U, 0U}, {1U, 0U}, {2U, 1U}, {4U, 3U}, {5U, 3U}, {256U, 192U}}) {
    places.offer(sandboxes, kGiB);
    EXPECT_EQ(places.forSessions(), sessions) << sandboxes;
  }
}

TEST(Places, RunsAndSessionsShareTheSandboxes) {
  Places places({.runs = 0, .memory_share = 1});
  places.offer(4, 64 * kGiB);
  for (int i = 0; i < 3; i++)
    open(places, {.memory = kGiB});
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
  run(places, {.memory = kGiB});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
  places.giveSession({.memory = kGiB});
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
}

TEST(Places, ASessionTakesItsPlaceAheadOfTheNextRun) {
  Places places({.runs = 0, .memory_share = 1});
  places.offer(2, 64 * kGiB);
  run(places, {.memory = kGiB});
  run(places, {.memory = kGiB});
  places.awaitSession({.memory = kGiB});
  EXPECT_FALSE(places.comes({.memory = kGiB}));
  places.giveRun({.memory = kGiB});
  EXPECT_TRUE(places.comes({.memory = kGiB}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
  places.arrive({.memory = kGiB});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
}

TEST(Places, TheirMemoryIsOneShare) {
  Places places({.runs = 0, .memory_share = 0.5});
  places.offer(100, 8 * kGiB);
  open(places, {.memory = 2 * kGiB});
  EXPECT_EQ(places.sessionsMemory(), 2 * kGiB);
  EXPECT_TRUE(places.hasRunRoom({.memory = 100 * kGiB})) << "one runs alone, however large";
  run(places, {.memory = kGiB});
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB + 1}));
  places.awaitSession({.memory = 2 * kGiB});
  EXPECT_FALSE(places.comes({.memory = 2 * kGiB}));
  places.giveRun({.memory = kGiB});
  EXPECT_TRUE(places.comes({.memory = 2 * kGiB}));
}

TEST(Places, TheirDiskIsOneShareAndHard) {
  Places places({.runs = 0, .memory_share = 1, .disk = 4 * kGiB, .disk_over = kGiB});
  places.offer(8, 64 * kGiB);
  model::Limits limits;
  EXPECT_EQ(places.needOf(limits).disk, 0U) << "what is asked for by default is in memory";
  limits.disk_bytes = 3 * kGiB;
  const Need need = places.needOf(limits);
  EXPECT_EQ(need.disk, 3 * kGiB);
  EXPECT_EQ(need.memory, limits.memory_bytes);
  EXPECT_FALSE(places.hasRunRoom({.disk = 5 * kGiB})) << "not even one alone";
  run(places, need);
  EXPECT_FALSE(places.hasRunRoom(need));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB})) << "one that needs none";
  places.awaitSession({.disk = 2 * kGiB});
  EXPECT_FALSE(places.comes({.disk = 2 * kGiB}));
  EXPECT_TRUE(places.comes({.memory = kGiB})) << "who needs none does not wait for it";
  EXPECT_EQ(places.diskTaken(), 5 * kGiB);
  places.giveRun(need);
  EXPECT_TRUE(places.comes({.disk = 2 * kGiB}));
}

TEST(Places, APartIsKeptForTenantsThatUseLittle) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(8, 64 * kGiB);
  for (int i = 0; i < 7; i++) {
    ASSERT_TRUE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "a"}));
    run(places, {.memory = kGiB, .disk = 0, .tenant = "a"});
  }
  EXPECT_TRUE(places.anyRunRoom());
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "a"}));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "b"}));
  run(places, {.memory = kGiB, .disk = 0, .tenant = "b"});
  EXPECT_FALSE(places.anyRunRoom());
  places.giveRun({.memory = kGiB, .disk = 0, .tenant = "a"});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "b"}));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "c"}));
}

TEST(Places, ThatPartOfTheMemoryToo) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(100, 8 * kGiB);
  run(places, {.memory = 4 * kGiB, .disk = 0, .tenant = "a"});
  open(places, {.memory = 3 * kGiB, .disk = 0, .tenant = "a"});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB / 4, .disk = 0, .tenant = "a"}));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB / 4, .disk = 0, .tenant = "b"}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB, .disk = 0, .tenant = "b"}));
}

TEST(Places, WhatIsKeptIsFromRunsAndSessionsTogether) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(8, 64 * kGiB);
  const Need a{.memory = kGiB, .disk = 0, .tenant = "a"};
  const Need b{.memory = kGiB, .disk = 0, .tenant = "b"};
  for (int i = 0; i < 7; i++)
    run(places, a);
  places.awaitSession(a);
  EXPECT_FALSE(places.comes(a)) << "the last place is kept";
  EXPECT_TRUE(places.hasRunRoom(b)) << "also from a session that waits";
  places.awaitSession(b);
  EXPECT_TRUE(places.comes(b));
  places.arrive(b);
  EXPECT_FALSE(places.anyRunRoom());
  places.giveRun(a);
  EXPECT_FALSE(places.comes(a));
  places.giveRun(a);
  EXPECT_TRUE(places.comes(a));
  places.arrive(a);
  places.giveSession(a);
  places.giveSession(b);
  EXPECT_EQ(places.sessions(), 0U);
}

TEST(Places, OneThatHasWaitedLongGetsWhatOthersGiveBack) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(100, 8 * kGiB);  // 983 MiB are kept
  const Need large{.memory = 7 * kGiB, .disk = 0, .tenant = "large"};
  const Need small{.memory = kGiB / 4, .disk = 0, .tenant = "small"};
  EXPECT_TRUE(places.fitsBesideOthers(large));
  EXPECT_FALSE(places.fitsBesideOthers({.memory = 7 * kGiB + kGiB / 8, .disk = 0, .tenant = ""}));
  run(places, small);
  EXPECT_FALSE(places.hasRunRoom(large));
  EXPECT_TRUE(places.hasRunRoomAtLast(large)) << "small uses what is kept";
  for (const char* tenant : {"b", "c"}) {
    const Need other{.memory = kGiB / 4, .disk = 0, .tenant = tenant};
    EXPECT_FALSE(places.hasRunRoomBeside(large, other)) << "it is there for large";
    run(places, other);
  }
  EXPECT_TRUE(places.hasRunRoomAtLast(large));
  run(places, {.memory = kGiB, .disk = 0, .tenant = "much"});
  EXPECT_FALSE(places.hasRunRoomAtLast(large));
  EXPECT_TRUE(places.hasRunRoomBeside(large, {.memory = kGiB / 8, .disk = 0, .tenant = "d"}));
  EXPECT_FALSE(places.hasRunRoomBeside(large, {.memory = kGiB / 4, .disk = 0, .tenant = "d"}));
  EXPECT_FALSE(places.hasRunRoomBeside(large, {.memory = kGiB / 4, .disk = 0, .tenant = "much"}));
}

TEST(Places, OneThatWaitsForItsOwnTenantHoldsUpNobody) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(100, 24 * kGiB);
  const Need large{.memory = 16 * kGiB, .disk = 0, .tenant = "large"};
  run(places, large);
  for (const char* tenant : {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"})
    places.awaitSession({.memory = kGiB / 4, .disk = 0, .tenant = tenant});
  EXPECT_FALSE(places.hasRunRoomAtLast(large));
  for (const char* tenant : {"b", "m", "another"}) {
    const Need small{.memory = kGiB / 4, .disk = 0, .tenant = tenant};
    EXPECT_TRUE(places.hasRunRoomBeside(large, small)) << tenant;
  }
  places.giveRun(large);
  run(places, {.memory = 8 * kGiB, .disk = 0, .tenant = "another"});
  EXPECT_FALSE(places.hasRunRoomAtLast(large));
  const Need small{.memory = kGiB / 4, .disk = 0, .tenant = "b"};
  EXPECT_FALSE(places.hasRunRoomBeside(large, small))
      << "large has nothing now, and waits for others";
}

TEST(Places, OneThatRunsAloneLeavesWhatIsKept) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(100, 8 * kGiB);
  Need alone{.memory = 8 * kGiB, .disk = 0, .tenant = "a"};
  EXPECT_TRUE(places.hasRunRoom(alone));
  places.takeRun(alone);
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB / 4, .disk = 0, .tenant = "b"}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB / 4, .disk = 0, .tenant = "a"}));
  places.giveRun(alone);
  EXPECT_TRUE(places.hasRunRoom({.memory = 7 * kGiB, .disk = 0, .tenant = "a"}));
}

TEST(Places, AndOfWhatSessionsMayHave) {
  Places places({.runs = 0, .memory_share = 1, .fairness = {.kept_percent = 12}});
  places.offer(100, 64 * kGiB);
  for (int i = 0; i < 7; i++)
    open(places, {.memory = kGiB, .disk = 0, .tenant = "a"});
  EXPECT_FALSE(places.hasSessionPlace("a", 8));
  EXPECT_TRUE(places.hasSessionPlace("b", 8));
  EXPECT_FALSE(places.hasSessionMemory({.memory = kGiB / 4, .disk = 0, .tenant = "a"}, 8 * kGiB));
  EXPECT_TRUE(places.hasSessionMemory({.memory = kGiB / 4, .disk = 0, .tenant = "b"}, 8 * kGiB));
}

TEST(Places, RunsHaveABoundOfTheirOwn) {
  Places places({.runs = 1, .memory_share = 1});
  places.offer(8, 64 * kGiB);
  EXPECT_EQ(places.concurrency(), 1U);
  run(places, {.memory = kGiB});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
  EXPECT_EQ(places.forSessions(), 6U);
}

}  // namespace
}  // namespace cloister::orchestrator
