// SPDX-License-Identifier: Apache-2.0
// A session's use is charged once: to the executions, and the rest to the session's owner.
#include <gmock/gmock.h>

#include "orchestrator/core/quota.h"
#include "orchestrator/sessions/session_fixture.h"
#include "orchestrator/sessions/session_meter.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;

constexpr Millis kLag{2000};

struct SessionMeterTest : testing::Test {
  uint64_t look(uint64_t total) { return meter_.look(total, now_); }
  void pass(Millis time) { now_ += time; }

  SessionMeter meter_{kLag};
  base::Monotonic now_{std::chrono::hours(1)};
};

TEST_F(SessionMeterTest, WhatNoProgramUsedIsTheSessions) {
  EXPECT_EQ(look(1000), 0U) << "a program may be reported later";
  meter_.addProgram(400);
  pass(kLag);
  EXPECT_EQ(look(5000), 600U);
  EXPECT_EQ(meter_.chargeProgram(400), 400U);
  pass(kLag);
  EXPECT_EQ(look(5000), 4000U);
  pass(kLag);
  EXPECT_EQ(look(5000), 0U);
  EXPECT_EQ(meter_.lookLast(5100), 100U);
}

TEST_F(SessionMeterTest, AProgramThatIsReportedAtItsEndIsChargedOnce) {
  EXPECT_EQ(look(1000), 0U);
  pass(kLag);
  EXPECT_EQ(look(1500), 1000U) << "as the session's";
  meter_.addProgram(1200);
  EXPECT_EQ(meter_.chargeProgram(1200), 500U) << "of 1500, 300 are the session's";
  EXPECT_EQ(meter_.lookLast(1500), 0U);
}

TEST_F(SessionMeterTest, AProgramThatMeasuresMoreThanTheSandboxIsChargedForItself) {
  meter_.addProgram(2000);
  EXPECT_EQ(meter_.chargeProgram(2000), 2000U);
  EXPECT_EQ(meter_.lookLast(1500), 0U);
}

TEST_F(SessionMeterTest, ALongRunOfLooksKeepsFew) {
  uint64_t charged = 0;
  for (uint64_t total = 0; total < 100'000; total += 100) {
    charged += look(total);
    pass(Millis(500));
  }
  EXPECT_EQ(charged + meter_.lookLast(100'000), 100'000U);
}

struct SessionQuotaTest : SessionsTest {
  void openWith(uint64_t cpu_seconds) {
    made_ = std::make_unique<Quotas>(
        QuotaConfig{.tenant = {.cpu_seconds_per_hour = cpu_seconds}, .agent = {}});
    quotas_ = made_.get();
    config_.rules_every = session_config_.usage_lag = std::chrono::milliseconds(1);
    open();
  }
  void setUsed(int64_t cpu_ms) {
    model::Usage used;
    used.cpu_ms = cpu_ms;
    fake_->setUsed(used);
  }
  ~SessionQuotaTest() override { close(); }

  std::unique_ptr<Quotas> made_;
};

TEST_F(SessionQuotaTest, ProcessesLeftBehindEndTheirSessionBeyondTheQuota) {
  openWith(3);
  const std::string id = created();
  setUsed(2000);
  runUntil([&] { return made_->use({"acme"}).cpu_seconds == 2; });
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning) << "the quota is not used up";
  const std::string program = running(id, {"hold"});
  setUsed(4000);
  runUntil([&] { return made_->use({"acme"}).cpu_seconds == 4; });
  setUsed(5000);
  runUntil([&] { return made_->use({"acme"}).cpu_seconds == 5; });
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning) << "it may have a second";
  setUsed(5001);
  const model::Session over = endedSession(id);
  ASSERT_TRUE(over.end);
  EXPECT_EQ(over.end->type, model::error_type::kQuotaExceeded);
  EXPECT_THAT(over.end->message, testing::HasSubstr("cpu_seconds_per_hour of tenant acme is 3"));
  EXPECT_EQ(detailsOf(id, "session.ended").at("limit"), "cpu_seconds_per_hour");
  const model::Execution with = stored(program);
  EXPECT_EQ(with.status, model::Status::kFailed);
  EXPECT_EQ(with.error.value_or(model::RunError{}).type, model::error_type::kQuotaExceeded);
  EXPECT_EQ(create(asked()).error().code, Code::kQuota);
}

TEST_F(SessionQuotaTest, AQuietSessionStaysWhenItsQuotaIsUsedUp) {
  openWith(1);
  const std::string id = created();
  EXPECT_EQ(ran(id, {"spin", "1500"}).usage.cpu_ms, 1500);
  setUsed(2500);  // the program has all but a second
  runUntil([&] { return made_->use({"acme"}).cpu_seconds == 2; });
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning);
}

TEST_F(SessionQuotaTest, TheEndChargesTheRestOnce) {
  openWith(100);
  const std::string id = created();
  ran(id, {"spin", "1000"});
  setUsed(2999);
  ASSERT_TRUE(end(id));
  EXPECT_EQ(made_->use({"acme"}).cpu_seconds, 2U) << "1 s of the program, and 1.999 s of others";
  EXPECT_EQ(made_->use({"acme", "agent"}).cpu_seconds, 2U);
  EXPECT_EQ(storedSession(id).usage.cpu_ms, 2999);
}

}  // namespace
}  // namespace cloister::orchestrator
