// SPDX-License-Identifier: Apache-2.0
#include "model/usage_history.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

Usage usageAt(int64_t wall_ms) {
  return {.wall_ms = wall_ms, .cpu_ms = wall_ms / 2, .max_rss_bytes = 7, .memory_bytes = 6};
}

TEST(UsageHistory, KeepsAPointASecond) {
  UsageHistory history;
  for (int64_t wall = 50; wall <= 3'000; wall += 50)
    history.add(usageAt(wall));
  ASSERT_EQ(history.points().size(), 3U);
  EXPECT_EQ(history.points()[0].wall_ms, 1'000);
  EXPECT_EQ(history.points()[2].wall_ms, 3'000);
  history.add(usageAt(2'000));
  EXPECT_EQ(history.points().size(), 3U) << "older than the last point";
}

TEST(UsageHistory, ALongRunHasFewPointsOverItsWholeTime) {
  UsageHistory history;
  constexpr int64_t kDay = 86'400'000;
  for (int64_t wall = 1'000; wall <= kDay; wall += 1'000)
    history.add(usageAt(wall));
  EXPECT_LE(history.points().size(), UsageHistory::kMostPoints);
  EXPECT_GT(history.points().size(), UsageHistory::kMostPoints / 3);
  EXPECT_EQ(history.points().front().wall_ms, 1'000);
  EXPECT_GT(history.points().back().wall_ms, kDay - kDay / 30);
}

TEST(UsageHistory, IsReadAsItWasWritten) {
  UsageHistory history;
  Usage usage = usageAt(1'000);
  usage.io_read_bytes = 5;
  usage.io_write_bytes = UINT64_MAX;
  usage.processes = 3;
  history.add(usage);
  usage.wall_ms = 2'000;
  usage.processes = std::nullopt;
  history.add(usage);
  const auto read = UsageHistory::fromJson(history.toJson());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->points(), history.points());
}

TEST(UsageHistory, RefusesAnotherForm) {
  using base::json::array;
  EXPECT_FALSE(UsageHistory::fromJson({1}));
  EXPECT_FALSE(UsageHistory::fromJson({array{1, 2, 3, 4, 5, 6}}));
  EXPECT_FALSE(UsageHistory::fromJson({array{1, 2, 3, 4, 5, 6, "7"}}));
  EXPECT_FALSE(UsageHistory::fromJson({array{1, 2, -3, 4, 5, 6, 7}}));
  array many(UsageHistory::kMostPoints + 1, array{1, 2, 3, 4, 5, 6, 7});
  EXPECT_FALSE(UsageHistory::fromJson(many));
}

}  // namespace
}  // namespace cloister::model
