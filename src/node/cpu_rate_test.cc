// SPDX-License-Identifier: Apache-2.0
#include "node/cpu_rate.h"

#include <gtest/gtest.h>

namespace cloister::node {
namespace {

using std::chrono::milliseconds;

TEST(CpuRate, IsThatOfTheLastSecond) {
  CpuRate rate;
  base::Monotonic now{};
  EXPECT_EQ(rate.tell(0, now), 0U);
  int64_t used = 0;
  for (int i = 0; i < 40; ++i) {
    now += milliseconds(100);
    used += 100;
    EXPECT_EQ(rate.tell(used, now), 1000U) << i;
  }
  for (int i = 0; i < 10; ++i) {
    now += milliseconds(100);
    used += 25;
    rate.tell(used, now);
  }
  EXPECT_EQ(rate.tell(used, now), 250U) << "what was before is forgotten";
}

TEST(CpuRate, OfWhatRestsIsNothing) {
  CpuRate rate;
  base::Monotonic now{};
  rate.tell(5000, now);
  EXPECT_EQ(rate.tell(7000, now + milliseconds(1000)), 2000U);
  EXPECT_EQ(rate.tell(7000, now + milliseconds(2000)), 0U);
}

TEST(CpuRate, LooksThatAreFarApartAreCountedBetween) {
  CpuRate rate;
  base::Monotonic now{};
  rate.tell(0, now);
  EXPECT_EQ(rate.tell(5000, now + milliseconds(10'000)), 500U);
}

TEST(CpuRate, WhatBecomesLessIsNothing) {
  CpuRate rate;
  base::Monotonic now{};
  rate.tell(5000, now);
  EXPECT_EQ(rate.tell(1000, now + milliseconds(500)), 0U);
}

}  // namespace
}  // namespace cloister::node
