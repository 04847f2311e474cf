// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/lease.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

using base::Monotonic;
using std::chrono::seconds;

constexpr Lease::Terms kTerms{.ttl = seconds(100), .idle_ttl = seconds(10)};

TEST(Lease, EndsAtTheEarlierOfBoth) {
  const Monotonic t0{};
  const Lease lease(t0, kTerms);
  EXPECT_EQ(lease.deadline(), t0 + seconds(10));
  EXPECT_EQ(lease.limit(), Lease::Limit::kIdleTtl);
  EXPECT_FALSE(lease.over(t0 + seconds(4)));
  EXPECT_FALSE(lease.over(t0 + seconds(10) - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(lease.over(t0 + seconds(10)));
  EXPECT_TRUE(lease.over(t0 + seconds(11)));
  const Lease brief(t0, {.ttl = seconds(5), .idle_ttl = seconds(10)});
  EXPECT_EQ(brief.deadline(), t0 + seconds(5));
  EXPECT_EQ(brief.limit(), Lease::Limit::kTtl);
}

TEST(Lease, AProgramSuspendsTheIdleEnd) {
  const Monotonic t0{};
  Lease lease(t0, kTerms);
  ASSERT_TRUE(lease.enter(t0 + seconds(1)));
  ASSERT_TRUE(lease.enter(t0 + seconds(2)));
  EXPECT_EQ(lease.deadline(), t0 + seconds(100));
  lease.leave(t0 + seconds(30));
  EXPECT_EQ(lease.deadline(), t0 + seconds(100));
  lease.leave(t0 + seconds(40));
  EXPECT_EQ(lease.deadline(), t0 + seconds(50));
  ASSERT_TRUE(lease.enter(t0 + seconds(49)));
  EXPECT_TRUE(lease.over(t0 + seconds(100))) << "a program does not suspend the absolute end";
}

TEST(Lease, RenewsBothEnds) {
  const Monotonic t0{};
  Lease lease(t0, kTerms);
  ASSERT_TRUE(lease.renew(t0 + seconds(5), {.ttl = seconds(50), .idle_ttl = seconds(20)}));
  EXPECT_EQ(lease.deadline(), t0 + seconds(25));
  ASSERT_TRUE(lease.enter(t0 + seconds(6)));
  EXPECT_EQ(lease.deadline(), t0 + seconds(55));
}

TEST(Lease, NothingComesBackOnceItIsOver) {
  const Monotonic t0{};
  Lease lease(t0, kTerms);
  EXPECT_FALSE(lease.renew(t0 + seconds(10), kTerms));
  EXPECT_FALSE(lease.enter(t0 + seconds(10)));
  EXPECT_EQ(lease.deadline(), t0 + seconds(10));
}

TEST(Lease, ARenewalCanBeTakenBack) {
  const Monotonic t0{};
  Lease lease(t0, kTerms);
  Lease before = lease;
  ASSERT_TRUE(lease.renew(t0 + seconds(5), {.ttl = seconds(500), .idle_ttl = seconds(400)}));
  lease.revert(before);
  EXPECT_EQ(lease.deadline(), t0 + seconds(10));
  // A program during the renewal counts.
  before = lease;
  ASSERT_TRUE(lease.renew(t0 + seconds(6), {.ttl = seconds(500), .idle_ttl = seconds(400)}));
  ASSERT_TRUE(lease.enter(t0 + seconds(6)));
  lease.leave(t0 + seconds(8));
  lease.revert(before);
  EXPECT_EQ(lease.deadline(), t0 + seconds(18));
}

// The watcher checks at the deadline or later; a renewal comes up to 5 ms to either side.
TEST(Lease, ARenewalThatIsTakenIsNeverFollowedByTheOldEnd) {
  std::mt19937_64 random(1);
  const Monotonic t0{};
  Lease lease(t0, {.ttl = seconds(3600), .idle_ttl = seconds(10)});
  int taken = 0;
  for (int i = 0; i < 10'000; i++) {
    const Monotonic due = lease.deadline();
    const auto off = std::chrono::microseconds(static_cast<int64_t>(random() % 10'001) - 5'000);
    const auto late = std::chrono::microseconds(random() % 5'000);
    const Monotonic at = due + off;
    const bool renewed = lease.renew(at, {.ttl = seconds(3600), .idle_ttl = seconds(10)});
    EXPECT_EQ(renewed, at < due);
    const Monotonic look = std::max(at, due + late);
    EXPECT_EQ(lease.over(look), !renewed)
        << "renewed " << renewed << " at " << off.count() << " us";
    if (renewed) {
      taken++;
      EXPECT_EQ(lease.deadline(), at + seconds(10));
    } else {
      lease = Lease(at, {.ttl = seconds(3600), .idle_ttl = seconds(10)});  // the next session
    }
  }
  EXPECT_GT(taken, 4'000);
  EXPECT_LT(taken, 6'000);
}

}  // namespace
}  // namespace cloister::orchestrator
