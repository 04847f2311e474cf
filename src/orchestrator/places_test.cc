// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/places.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

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
    places.takeSession({.memory = kGiB});
  EXPECT_TRUE(places.settled({.memory = kGiB}));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
  places.takeRun({.memory = kGiB});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
  places.giveSession({.memory = kGiB});
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
}

TEST(Places, ASessionTakesItsPlaceAheadOfTheNextRun) {
  Places places({.runs = 0, .memory_share = 1});
  places.offer(2, 64 * kGiB);
  places.takeRun({.memory = kGiB});
  places.takeRun({.memory = kGiB});
  places.takeSession({.memory = kGiB});
  EXPECT_FALSE(places.settled({.memory = kGiB}));
  places.giveRun({.memory = kGiB});
  EXPECT_TRUE(places.settled({.memory = kGiB}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
}

TEST(Places, TheirMemoryIsOneShare) {
  Places places({.runs = 0, .memory_share = 0.5});
  places.offer(100, 8 * kGiB);
  places.takeSession({.memory = 2 * kGiB});
  EXPECT_EQ(places.sessionsNeed().memory, 2 * kGiB);
  EXPECT_TRUE(places.hasRunRoom({.memory = 100 * kGiB})) << "one runs alone, however large";
  places.takeRun({.memory = kGiB});
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB}));
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB + 1}));
  places.takeSession({.memory = 2 * kGiB});
  EXPECT_FALSE(places.settled({.memory = kGiB}));
  places.giveRun({.memory = kGiB});
  EXPECT_TRUE(places.settled({.memory = kGiB}));
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
  places.takeRun(need);
  EXPECT_FALSE(places.hasRunRoom(need));
  EXPECT_TRUE(places.hasRunRoom({.memory = kGiB})) << "one that needs none";
  places.takeSession({.disk = 2 * kGiB});
  EXPECT_FALSE(places.settled({.disk = 2 * kGiB}));
  EXPECT_TRUE(places.settled({.memory = kGiB})) << "who needs none does not wait for it";
  EXPECT_EQ(places.diskTaken(), 5 * kGiB);
  places.giveRun(need);
  EXPECT_TRUE(places.settled({.disk = 2 * kGiB}));
}

TEST(Places, RunsHaveABoundOfTheirOwn) {
  Places places({.runs = 1, .memory_share = 1});
  places.offer(8, 64 * kGiB);
  EXPECT_EQ(places.concurrency(), 1U);
  places.takeRun({.memory = kGiB});
  EXPECT_FALSE(places.hasRunRoom({.memory = kGiB}));
  EXPECT_EQ(places.forSessions(), 6U);
}

}  // namespace
}  // namespace cloister::orchestrator
