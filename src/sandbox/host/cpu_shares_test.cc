// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/cpu_shares.h"

#include <numeric>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace cloister::runtime {
namespace {

using Amounts = std::vector<uint32_t>;

uint32_t sum(const Amounts& amounts) {
  return std::accumulate(amounts.begin(), amounts.end(), uint32_t{0});
}

TEST(ShareCpu, OneHasAllThatItsLimitsAllow) {
  EXPECT_EQ(shareCpu(250, std::vector<CpuNeed>{{.used = 0, .given = 0, .most = 250}}),
            (Amounts{250}));
  EXPECT_EQ(shareCpu(500, std::vector<CpuNeed>{{.used = 0, .given = 0, .most = 250}}),
            (Amounts{250}));
}

TEST(ShareCpu, ThoseThatAreBusyHaveTheSame) {
  const std::vector<CpuNeed> busy(4, {.used = 62, .given = 62, .most = 250});
  const Amounts given = shareCpu(250, busy);
  EXPECT_EQ(sum(given), 250U);
  for (const uint32_t each : given)
    EXPECT_NEAR(each, 62, 1);
}

TEST(ShareCpu, WhatOneLeavesGoesToTheOthers) {
  const std::vector<CpuNeed> needs = {{.used = 0, .given = 125, .most = 250},
                                      {.used = 125, .given = 125, .most = 250}};
  const Amounts given = shareCpu(250, needs);
  EXPECT_LE(sum(given), 250U);
  EXPECT_GE(given[1], 235U);
  EXPECT_GE(given[0], kLeastCpu) << "it can begin again";
}

TEST(ShareCpu, WhoBeginsAgainGetsItsPartOnceItWantsMore) {
  const std::vector<CpuNeed> needs = {{.used = 10, .given = 10, .most = 250},
                                      {.used = 240, .given = 240, .most = 250}};
  const Amounts given = shareCpu(250, needs);
  EXPECT_LE(sum(given), 250U);
  EXPECT_NEAR(given[0], 125, 5);
}

TEST(ShareCpu, NoneHasLessThanTheKernelCounts) {
  const std::vector<CpuNeed> many(40, {.used = 10, .given = 10, .most = 250});
  for (const uint32_t each : shareCpu(250, many))
    EXPECT_EQ(each, kLeastCpu);
}

TEST(ShareCpu, NobodyHasMoreThanItsMost) {
  const std::vector<CpuNeed> needs(3, {.used = 100, .given = 100, .most = 100});
  EXPECT_EQ(shareCpu(2000, needs), (Amounts{100, 100, 100}));
}

struct Busy final : CpuSharer {
  [[nodiscard]] uint64_t cpuMicros() const override { return micros; }
  [[nodiscard]] uint32_t cpuMost() const override { return 800; }
  bool giveCpu(uint32_t millis) override {
    if (broken) return false;
    given = millis;
    return true;
  }
  uint64_t micros = 0;
  uint32_t given = 0;
  bool broken = false;
};

class CpuSharesTest : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kPeriod{20};

  // Advances a fake clock by a period, independent of the machine's speed.
  void aPeriodLater() {
    now_ += kPeriod;
    io_.run_one();
  }

  boost::asio::io_context io_;
  base::Monotonic now_{};
  std::shared_ptr<CpuShares> shares_ =
      std::make_shared<CpuShares>(io_.get_executor(), kPeriod, [this] { return now_; });
};

TEST_F(CpuSharesTest, ANewOneHasItsPartAtOnceAndWhoEndsLeavesIt) {
  Busy one;
  Busy two;
  Busy other;
  auto first = shares_->add("a", 400, one);
  EXPECT_EQ(one.given, 400U);
  auto beside = shares_->add("b", 300, other);
  auto second = shares_->add("a", 400, two);
  EXPECT_LE(one.given + two.given, 400U);
  EXPECT_GT(two.given, 100U);
  EXPECT_EQ(other.given, 300U) << "another's";
  second.reset();
  EXPECT_EQ(one.given, 400U);
  first.reset();
  beside.reset();
  io_.run();  // returns, since no sandbox is left to watch
}

TEST_F(CpuSharesTest, WhoRestsLeavesItsPartToWhoIsBusy) {
  Busy busy;
  Busy idle;
  const auto first = shares_->add("a", 400, busy);
  const auto second = shares_->add("a", 400, idle);
  for (int i = 0; i < 5; ++i) {
    busy.micros += 6'000;  // 300 of 1000 of a period
    aPeriodLater();
  }
  EXPECT_GT(busy.given, 350U);
  EXPECT_LE(busy.given + idle.given, 400U);
}

TEST_F(CpuSharesTest, WhatWasTooMuchIsTakenFromWhatComesNext) {
  auto ended = std::make_unique<Busy>();
  auto place = shares_->add("a", 100, *ended);
  ended->micros = 10'000;
  place.reset();
  ended.reset();
  Busy next;
  const auto again = shares_->add("a", 100, next);
  aPeriodLater();
  EXPECT_EQ(next.given, kLeastCpu);
  for (int i = 1; i < 10'000 / 2'000; ++i)
    aPeriodLater();
  EXPECT_EQ(next.given, 100U) << "once that time is over";
}

TEST_F(CpuSharesTest, WhatCouldNotBeGivenIsGivenLater) {
  Busy one;
  one.broken = true;
  const auto place = shares_->add("a", 400, one);
  EXPECT_EQ(one.given, 0U);
  one.broken = false;
  aPeriodLater();
  EXPECT_EQ(one.given, 400U);
}

}  // namespace
}  // namespace cloister::runtime
