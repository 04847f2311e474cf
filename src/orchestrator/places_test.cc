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
    places.takeSession(kGiB);
  EXPECT_TRUE(places.settled());
  EXPECT_TRUE(places.hasRunRoom(kGiB));
  places.takeRun(kGiB);
  EXPECT_FALSE(places.hasRunRoom(kGiB));
  places.giveSession(kGiB);
  EXPECT_TRUE(places.hasRunRoom(kGiB));
}

TEST(Places, ASessionTakesItsPlaceAheadOfTheNextRun) {
  Places places({.runs = 0, .memory_share = 1});
  places.offer(2, 64 * kGiB);
  places.takeRun(kGiB);
  places.takeRun(kGiB);
  places.takeSession(kGiB);
  EXPECT_FALSE(places.settled());
  places.giveRun(kGiB);
  EXPECT_TRUE(places.settled());
  EXPECT_FALSE(places.hasRunRoom(kGiB));
}

TEST(Places, TheirMemoryIsOneShare) {
  Places places({.runs = 0, .memory_share = 0.5});
  places.offer(100, 8 * kGiB);
  places.takeSession(2 * kGiB);
  EXPECT_EQ(places.sessionMemory(), 2 * kGiB);
  EXPECT_TRUE(places.hasRunRoom(100 * kGiB)) << "one runs alone, however large";
  places.takeRun(kGiB);
  EXPECT_TRUE(places.hasRunRoom(kGiB));
  EXPECT_FALSE(places.hasRunRoom(kGiB + 1));
  places.takeSession(2 * kGiB);
  EXPECT_FALSE(places.settled());
  places.giveRun(kGiB);
  EXPECT_TRUE(places.settled());
}

TEST(Places, RunsHaveABoundOfTheirOwn) {
  Places places({.runs = 1, .memory_share = 1});
  places.offer(8, 64 * kGiB);
  EXPECT_EQ(places.concurrency(), 1U);
  places.takeRun(kGiB);
  EXPECT_FALSE(places.hasRunRoom(kGiB));
  EXPECT_EQ(places.forSessions(), 6U);
}

}  // namespace
}  // namespace cloister::orchestrator
