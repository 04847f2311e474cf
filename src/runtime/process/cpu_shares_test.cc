// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/cpu_shares.h"

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
  template <class Condition>
  void runUntil(Condition condition) {
    while (!condition())
      io_.run_one();
  }

  boost::asio::io_context io_;
  std::shared_ptr<CpuShares> shares_ =
      std::make_shared<CpuShares>(io_.get_executor(), std::chrono::milliseconds(20));
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
  io_.run();  // comes to an end: nobody is left to look after
}

TEST_F(CpuSharesTest, WhoRestsLeavesItsPartToWhoIsBusy) {
  Busy busy;
  Busy idle;
  const auto first = shares_->add("a", 400, busy);
  const auto second = shares_->add("a", 400, idle);
  const auto begin = base::monotonicNow();
  runUntil([&] {
    const auto since = base::monotonicNow() - begin;
    busy.micros = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(since).count() * 3 / 10);
    return busy.given > 350;
  });
  EXPECT_LE(busy.given + idle.given, 400U);
}

TEST_F(CpuSharesTest, WhatWasTooMuchIsTakenFromWhatComesNext) {
  auto ended = std::make_unique<Busy>();
  auto place = shares_->add("a", 100, *ended);
  ended->micros = 50'000;
  place.reset();
  ended.reset();
  Busy next;
  const auto again = shares_->add("a", 100, next);
  runUntil([&] { return next.given == kLeastCpu; });
  runUntil([&] { return next.given == 100; });  // once that time is over
}

TEST_F(CpuSharesTest, WhatCouldNotBeGivenIsGivenLater) {
  Busy one;
  one.broken = true;
  const auto place = shares_->add("a", 400, one);
  EXPECT_EQ(one.given, 0U);
  one.broken = false;
  runUntil([&] { return one.given == 400; });
}

}  // namespace
}  // namespace cloister::runtime
