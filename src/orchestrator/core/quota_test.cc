// SPDX-License-Identifier: Apache-2.0
// Quotas by clocks of the test's own.
#include "orchestrator/core/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kHour = int64_t{3600} * 1'000'000;

struct QuotaTest : testing::Test {
  Quotas& make(model::Quota tenant, model::Quota agent = {}) {
    quotas_ = std::make_unique<Quotas>(QuotaConfig{.tenant = tenant,
                                                   .agent = agent,
                                                   .now = [this] { return now_; },
                                                   .wall = [this] { return wall_; }});
    return *quotas_;
  }
  static model::Principal of(const std::string& tenant, const std::string& agent = "") {
    model::Principal by;
    by.tenant = tenant;
    by.agent = agent;
    return by;
  }
  void pass(std::chrono::milliseconds time) {
    now_ += time;
    wall_ += std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  }

  base::Monotonic now_{std::chrono::hours(1)};
  int64_t wall_ = 400'000 * kHour + kHour / 2;
  std::unique_ptr<Quotas> quotas_;
};

TEST_F(QuotaTest, NothingIsBoundedUntilSomebodySaysSo) {
  Quotas& quotas = make({});
  std::vector<Quotas::Use> uses;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(quotas.admit(of("acme"), 1 << 30));
    ASSERT_TRUE(quotas.hasRoom(of("acme"), 1 << 30));
    uses.push_back(quotas.beginRun(of("acme"), 1 << 30));
  }
  EXPECT_EQ(quotas.use({"acme"}).running, 1000U);
}

TEST_F(QuotaTest, SoManyRunAtOnce) {
  Quotas& quotas = make({.concurrent = 2}, {.concurrent = 1});
  auto first = quotas.beginRun(of("acme", "alice"), kMiB);
  EXPECT_FALSE(quotas.hasRoom(of("acme", "alice"), kMiB)) << "the agent's own";
  EXPECT_TRUE(quotas.hasRoom(of("acme", "bob"), kMiB));
  auto second = quotas.beginRun(of("acme", "bob"), kMiB);
  EXPECT_FALSE(quotas.hasRoom(of("acme"), kMiB)) << "the tenant's";
  EXPECT_TRUE(quotas.hasRoom(of("other", "alice"), kMiB));
  EXPECT_TRUE(quotas.admit(of("acme"), kMiB)) << "it waits";
  first.end();
  first.end();
  EXPECT_TRUE(quotas.hasRoom(of("acme", "alice"), kMiB));
  second = {};
  EXPECT_EQ(quotas.use({"acme"}).running, 0U);
}

TEST_F(QuotaTest, MemoryIsOfWhatRunsAtOnce) {
  Quotas& quotas = make({.memory_mb = 100});
  const auto too_much = quotas.admit(of("acme"), 101 * kMiB);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, Code::kQuota);
  EXPECT_THAT(too_much.error().message,
              HasSubstr("quota memory_mb of tenant acme is 100 MiB: 101 MiB are asked for at once; "
                        "ask for at most 100 MiB, or have the quota raised"));
  EXPECT_EQ(too_much.error().retry_after_seconds, 0) << "waiting does not help";
  EXPECT_TRUE(too_much.error().lasting);
  const auto too_large = quotas.beginSession(of("acme"), 101 * kMiB);
  ASSERT_FALSE(too_large);
  EXPECT_TRUE(too_large.error().lasting) << "though nothing is in use";
  EXPECT_EQ(too_large.error().retry_after_seconds, 0);
  auto run = quotas.beginRun(of("acme"), 60 * kMiB);
  EXPECT_FALSE(quotas.hasRoom(of("acme"), 41 * kMiB));
  EXPECT_TRUE(quotas.hasRoom(of("acme"), 40 * kMiB));
  const auto session = quotas.beginSession(of("acme"), 41 * kMiB);
  ASSERT_FALSE(session);
  EXPECT_GT(session.error().retry_after_seconds, 0);
  EXPECT_FALSE(session.error().lasting);
  EXPECT_THAT(session.error().message,
              HasSubstr("is 100 MiB: 60 MiB are in use, and 41 are asked for"));
  run.end();
  EXPECT_TRUE(quotas.beginSession(of("acme"), 41 * kMiB));
  quotas.set({{"acme"}, {.memory_mb = 10}});
  EXPECT_TRUE(quotas.hasRoom(of("acme"), 60 * kMiB)) << "one that was admitted runs alone";
}

TEST_F(QuotaTest, SoManySessionsAtOnce) {
  Quotas& quotas = make({}, {.sessions = 1});
  auto first = quotas.beginSession(of("acme", "alice"), kMiB);
  ASSERT_TRUE(first);
  const auto second = quotas.beginSession(of("acme", "alice"), kMiB);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("quota sessions of agent alice is 1"));
  EXPECT_EQ(quotas.use({"acme"}).sessions, 1U) << "what was refused counts nowhere";
  first->end();
  EXPECT_TRUE(quotas.beginSession(of("acme", "alice"), kMiB));
}

TEST_F(QuotaTest, TheMinuteFillsUpAgain) {
  Quotas& quotas = make({.runs_per_minute = 6});
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(quotas.admit(of("acme"), 0)) << i;
  EXPECT_EQ(quotas.use({"acme"}).runs_this_minute, 6U);
  const auto over = quotas.admit(of("acme"), 0);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().retry_after_seconds, 10);
  EXPECT_TRUE(quotas.admit(of("other"), 0));
  pass(std::chrono::milliseconds(9'900));
  EXPECT_FALSE(quotas.admit(of("acme"), 0));
  pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(quotas.admit(of("acme"), 0));
  EXPECT_FALSE(quotas.admit(of("acme"), 0));
  quotas.takeBack(of("acme"));
  EXPECT_TRUE(quotas.admit(of("acme"), 0)) << "the one before was a replay";
  pass(std::chrono::hours(1));
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(quotas.admit(of("acme"), 0)) << "so many, and no more, after a pause";
  EXPECT_FALSE(quotas.admit(of("acme"), 0));
}

TEST_F(QuotaTest, WhatOneIsRefusedTheOtherIsNotChargedFor) {
  Quotas& quotas = make({.runs_per_minute = 3}, {.runs_per_minute = 1});
  ASSERT_TRUE(quotas.admit(of("acme", "alice"), 0));
  for (int i = 0; i < 10; ++i)
    ASSERT_FALSE(quotas.admit(of("acme", "alice"), 0));
  EXPECT_TRUE(quotas.admit(of("acme", "bob"), 0));
  EXPECT_TRUE(quotas.admit(of("acme"), 0));
  EXPECT_FALSE(quotas.admit(of("acme"), 0));
}

TEST_F(QuotaTest, ProcessorTimeIsOfTheHour) {
  Quotas& quotas = make({}, {.cpu_seconds_per_hour = 10});
  quotas.charge(of("acme", "alice"), 9'999);
  EXPECT_TRUE(quotas.admit(of("acme", "alice"), 0));
  quotas.charge(of("acme", "alice"), 1);
  const auto over = quotas.admit(of("acme", "alice"), 0);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().retry_after_seconds, 1801);
  EXPECT_FALSE(quotas.beginSession(of("acme", "alice"), 0));
  EXPECT_TRUE(quotas.admit(of("acme", "bob"), 0));
  pass(std::chrono::minutes(30));
  EXPECT_EQ(quotas.use({"acme", "alice"}).cpu_seconds, 0U);
  EXPECT_TRUE(quotas.admit(of("acme", "alice"), 0));
}

TEST_F(QuotaTest, ARecordCountsBeforeTheConfiguration) {
  Quotas& quotas = make({.concurrent = 2, .sessions = 3});
  quotas.set({{"acme"}, {.concurrent = 5, .storage_mb = 7}});
  EXPECT_EQ(quotas.of({"acme"}).concurrent, 5U);
  EXPECT_EQ(quotas.of({"acme"}).sessions, 3U);
  EXPECT_EQ(quotas.of({"other"}).concurrent, 2U);
  EXPECT_EQ(quotas.storageOf("acme", {.artifacts = 1, .bytes = 2}).bytes, 7 * kMiB);
  EXPECT_EQ(quotas.storageOf("other", {.artifacts = 1, .bytes = 2}).bytes, 2U);
  EXPECT_THAT(quotas.scopes(""), ElementsAre(model::QuotaScope{"acme"}));
  quotas.set({{"acme"}, {}});
  EXPECT_EQ(quotas.of({"acme"}).concurrent, 2U);
}

TEST_F(QuotaTest, ThoseInUseAreShownToTheirTenant) {
  Quotas& quotas = make({});
  const auto use = quotas.beginRun(of("acme", "alice"), kMiB);
  quotas.set({{"other", "eve"}, {.concurrent = 1}});
  EXPECT_THAT(quotas.scopes("acme"),
              ElementsAre(model::QuotaScope{"acme"}, model::QuotaScope{"acme", "alice"}));
  EXPECT_EQ(quotas.scopes("").size(), 3U);
}

}  // namespace
}  // namespace cloister::orchestrator
