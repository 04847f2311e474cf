// SPDX-License-Identifier: Apache-2.0
#include "model/pool_stats.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

using std::chrono::microseconds;

TEST(Durations, ABoundBelongsToItsBucket) {
  Durations d;
  for (const int64_t took : {0, 50, 51, 5'000'000, 5'000'001})
    d.add(microseconds(took));
  EXPECT_EQ(d.counts.front(), 2U);
  EXPECT_EQ(d.counts[1], 1U);
  EXPECT_EQ(d.counts[15], 1U);
  EXPECT_EQ(d.counts.back(), 1U);
  EXPECT_EQ(d.count(), 5U);
  EXPECT_EQ(d.sum_micros, 10'000'102U);
}

}  // namespace
}  // namespace cloister::model
