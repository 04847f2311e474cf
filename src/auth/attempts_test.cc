// SPDX-License-Identifier: Apache-2.0
#include "auth/attempts.h"

#include <gtest/gtest.h>

namespace cloister::auth {
namespace {

using std::chrono::seconds;

base::Address at(const std::string& text) {
  return base::Address::parse(text).value();
}

TEST(Attempts, AreLimitedForEachPeer) {
  Attempts attempts(60);
  const base::Monotonic start = base::monotonicNow();
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(attempts.waitSeconds(at("10.0.0.1"), start), 0) << i;
    attempts.failed(at("10.0.0.1"), start);
  }
  EXPECT_EQ(attempts.waitSeconds(at("10.0.0.1"), start), 1);
  EXPECT_EQ(attempts.waitSeconds(at("10.0.0.2"), start), 0);
  EXPECT_EQ(attempts.waitSeconds(at("10.0.0.1"), start + seconds(1)), 0) << "one a second";
  attempts.failed(at("10.0.0.1"), start + seconds(1));
  EXPECT_EQ(attempts.waitSeconds(at("10.0.0.1"), start + seconds(1)), 1);
  EXPECT_EQ(attempts.waitSeconds(at("10.0.0.1"), start + seconds(100)), 0);
}

TEST(Attempts, CountAHostOfIPv6Once) {
  Attempts attempts(1);
  const base::Monotonic now = base::monotonicNow();
  attempts.failed(at("2001:db8::1"), now);
  EXPECT_GT(attempts.waitSeconds(at("2001:db8::ffff:2"), now), 0);
  EXPECT_EQ(attempts.waitSeconds(at("2001:db8:0:1::1"), now), 0);
}

TEST(Attempts, RememberABoundedNumberOfPeers) {
  Attempts attempts(1);
  const base::Monotonic now = base::monotonicNow();
  const auto nth = [](size_t i) {
    return at("10." + std::to_string(i >> 16) + "." + std::to_string((i >> 8) & 255) + "." +
              std::to_string(i & 255));
  };
  for (size_t i = 0; i < 2 * Attempts::kMaxPeers; ++i) {
    attempts.failed(nth(i), now);
    EXPECT_GT(attempts.waitSeconds(nth(i), now), 0);
    if (i < Attempts::kMaxPeers) continue;
    EXPECT_EQ(attempts.waitSeconds(nth(i - Attempts::kMaxPeers), now), 0) << "forgotten";
    EXPECT_GT(attempts.waitSeconds(nth(i - Attempts::kMaxPeers + 1), now), 0) << "the next one";
  }
}

}  // namespace
}  // namespace cloister::auth
