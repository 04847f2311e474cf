// SPDX-License-Identifier: Apache-2.0
// The ends of sessions, each cause and their races.
#include <random>
#include <tuple>

#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

namespace error_type = model::error_type;
using model::SandboxEnd;
using model::SessionStatus;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SessionsTest, EndsOnRequestWithItsPrograms) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"hold"});
  const auto session = end(id);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->status, SessionStatus::kEnded);
  EXPECT_EQ(reason(*session), error_type::kCancelled);
  EXPECT_EQ(session->running, 0U);
  EXPECT_EQ(session->expires_at, 0);
  EXPECT_GT(session->ended_at, 0);
  EXPECT_EQ(stored(held).status, model::Status::kCancelled) << "before the session's end is told";
  EXPECT_THAT(stored(held).error->message, HasSubstr("session"));
  EXPECT_EQ(fake_->live(), 0U);
  EXPECT_THAT(auditOf(id), ElementsAre("session.created", "session.started", "session.ended"));
  EXPECT_EQ(detailsOf(id, "session.ended")["reason"].as_string(), error_type::kCancelled);

  const auto again = end(id);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ended_at, session->ended_at);
  EXPECT_EQ(auditOf(id).size(), 3U);
  for (const Error& error :
       {exec(id, {"echo"}).error(), renew(id, Millis(1'000), Millis(1'000)).error()}) {
    EXPECT_EQ(error.code, Code::kConflict);
    EXPECT_THAT(error.message, HasSubstr("ended on request"));
  }
  EXPECT_EQ(metrics_.running_sessions, 0U);
}

TEST_F(SessionsTest, TwoEndsAreOne) {
  open();
  const std::string id = created();
  running(id, {"hold"});
  const auto one = start(sessions_->end(principal(), id));
  const auto two = start(sessions_->end(principal(), id));
  EXPECT_EQ(finish(one)->ended_at, finish(two)->ended_at);
  EXPECT_EQ(auditOf(id).size(), 3U);
  EXPECT_EQ(metrics_.ends[std::string(error_type::kCancelled)], 1);
}

TEST_F(SessionsTest, EndsAtItsTimeWithItsPrograms) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"hold"});
  ASSERT_TRUE(renew(id, Millis(150), Millis(60'000)));
  const auto due = shown(id).expires_at;
  const model::Session session = endedSession(id);
  EXPECT_EQ(reason(session), error_type::kTimeout);
  EXPECT_EQ(session.end->details.at("limit").as_string(), "ttl");
  EXPECT_GE(session.ended_at, due - 1'000);
  EXPECT_LT(session.ended_at, due + 1'000'000);
  const model::Execution program_end = stored(held);
  EXPECT_EQ(program_end.status, model::Status::kTimedOut);
  EXPECT_EQ(program_end.error->type, error_type::kTimeout);
  EXPECT_EQ(program_end.error->details.at("limit").as_string(), "ttl");
  EXPECT_EQ(fake_->live(), 0U);
}

TEST_F(SessionsTest, EndsWhenNothingRunsForLong) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"sleep", "400"});
  ASSERT_TRUE(renew(id, Millis(60'000), Millis(150)));
  EXPECT_GT(shown(id).expires_at, base::wallMicros() + 30'000'000) << "while a program runs";
  EXPECT_EQ(ServiceTest::ended(held).status, model::Status::kCompleted);
  const int64_t due = shown(id).expires_at;
  EXPECT_LT(due, base::wallMicros() + 200'000);
  const model::Session session = endedSession(id);
  EXPECT_EQ(reason(session), error_type::kTimeout);
  EXPECT_EQ(session.end->details.at("limit").as_string(), "idle_ttl");
  EXPECT_EQ(session.end->details.at("value").as_int64(), 150);
  EXPECT_EQ(session.end->details.at("unit").as_string(), "ms");
  EXPECT_GE(session.ended_at, due - 1'000);
}

TEST_F(SessionsTest, EndsWithItsSandboxAndSaysWhy) {
  struct Row {
    SandboxEnd end;
    std::string_view session;
    model::Status status;
    std::string_view program;
  };
  const Row rows[] = {
      {{SandboxEnd::Kind::kMemory, "out of memory"},
       error_type::kResourceLimit,
       model::Status::kFailed,
       error_type::kResourceLimit},
      {{SandboxEnd::Kind::kFileLocks, "1500 of 1024"},
       error_type::kResourceLimit,
       model::Status::kFailed,
       error_type::kResourceLimit},
      {{SandboxEnd::Kind::kRunnerLost, "no memory of why"},
       error_type::kRunnerLost,
       model::Status::kFailed,
       error_type::kRunnerLost},
      {{SandboxEnd::Kind::kNodeLost, "gone"},
       error_type::kNodeLost,
       model::Status::kFailed,
       error_type::kNodeLost},
  };
  for (const Row& row : rows) {
    open();
    const std::string id = created();
    const std::string held = running(id, {"hold"});
    fake_->killSandboxes(row.end);
    const model::Session session = endedSession(id);
    EXPECT_EQ(reason(session), row.session);
    const model::Execution program_end = stored(held);
    EXPECT_EQ(program_end.status, row.status);
    EXPECT_EQ(program_end.error->type, row.program);
    EXPECT_EQ(fake_->live(), 0U);
    EXPECT_EQ(exec(id, {"echo"}).error().code, Code::kConflict);
    close();
  }
}

TEST_F(SessionsTest, AProgramThatEndsItsSandboxHearsOfIt) {
  open();
  const std::string id = created();
  const model::Execution execution = ran(id, {"die", "of", "itself"});
  EXPECT_EQ(execution.error->type, error_type::kRunnerLost);
  EXPECT_THAT(endedSession(id).end->message, HasSubstr("of itself"));
}

TEST_F(SessionsTest, EndsWithItsNode) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"hold"});
  control_->nodes.set({});
  const model::Session session = endedSession(id);
  EXPECT_EQ(reason(session), error_type::kNodeLost);
  EXPECT_TRUE(session.end->retryable);
  EXPECT_EQ(stored(held).error->type, error_type::kNodeLost);
  connect();
  EXPECT_TRUE(create(asked()));
}

TEST_F(SessionsTest, ARestartEndsWhatWasThere) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"hold"});
  close();
  open();
  const model::Session session = storedSession(id);
  EXPECT_EQ(session.status, SessionStatus::kEnded);
  EXPECT_EQ(reason(session), error_type::kServerRestart);
  EXPECT_THAT(auditOf(id), ElementsAre("session.created", "session.started", "session.ended"));
  EXPECT_EQ(stored(held).error->type, error_type::kServerRestart);
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

TEST_F(SessionsTest, ARestartOnAFullDiskServesWhatThereIs) {
  open();
  const std::string id = created();
  const std::string held = running(id, {"hold"});
  close();
  full_ = true;
  open();
  EXPECT_EQ(stored(held).status, model::Status::kRunning);
  runUntil([&] {
    const auto ready = service_->ready();
    return !ready && ready.error().message.contains("the ledger refuses 2 records");
  });
  store_->full = false;
  runUntil([&] { return service_->ready().has_value(); });
  EXPECT_EQ(stored(held).error->type, error_type::kServerRestart);
  EXPECT_EQ(reason(storedSession(id)), error_type::kServerRestart);
}

TEST_F(SessionsTest, ARestartEndsWhatWasBeingMade) {
  open();
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(principal(), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  close();
  open();
  const auto all = *sessions_->list(principal(), {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(reason(all[0]), error_type::kServerRestart);
}

TEST_F(SessionsTest, DrainEndsThemAll) {
  open();
  const std::string one = created();
  const std::string two = created();
  const std::string held = running(one, {"hold"});
  await([](Sessions& sessions) -> Task<bool> {
    co_await sessions.drain();
    co_return true;
  }(*sessions_));
  for (const std::string& id : {one, two}) {
    EXPECT_EQ(reason(storedSession(id)), error_type::kServerRestart);
  }
  EXPECT_EQ(stored(held).error->type, error_type::kServerRestart);
  EXPECT_EQ(create(asked()).error().code, Code::kUnavailable);
  EXPECT_EQ(fake_->live(), 0U);
}

TEST_F(SessionsTest, DrainWaitsForNoSandbox) {
  session_config_.patience.begin = Millis(60'000);
  open();
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(principal(), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  const std::string id = sessions_->list(principal(), {})->at(0).id;
  const auto began = base::monotonicNow();
  await([](Sessions& sessions) -> Task<bool> {
    co_await sessions.drain();
    co_return true;
  }(*sessions_));
  EXPECT_LT(base::monotonicNow() - began, Millis(5'000));
  EXPECT_EQ(reason(storedSession(id)), error_type::kServerRestart);
  EXPECT_FALSE(finish(making));
  fake_->holdProvisions(false);
  runUntil([&] { return !fake_->provisioned().empty() && fake_->live() == 0; });
  EXPECT_EQ(reason(storedSession(id)), error_type::kServerRestart);
}

TEST_F(SessionsTest, CanBeEndedWhileItIsMade) {
  session_config_.patience.begin = Millis(20);
  open();
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(principal(), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  const std::string id = sessions_->list(principal(), {})->at(0).id;
  EXPECT_EQ(exec(id, {"echo"}).error().code, Code::kConflict);
  EXPECT_EQ(renew(id, Millis(1'000), Millis(1'000)).error().code, Code::kConflict);
  const auto session = end(id);
  ASSERT_TRUE(session);
  EXPECT_EQ(reason(*session), error_type::kCancelled);
  const auto made = finish(making);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kConflict);
  fake_->holdProvisions(false);  // too late: ends at once
  runUntil([&] { return !fake_->provisioned().empty() && fake_->live() == 0; });
  EXPECT_THAT(auditOf(id), ElementsAre("session.created", "session.ended"));
}

TEST_F(SessionsTest, ItsTimeBeginsOnceItIsMade) {
  open();
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(principal(), asked(Millis(200), Millis(200)), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  io_->run_for(Millis(250));
  fake_->holdProvisions(false);
  const auto made = finish(making);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(reason(endedSession(made->id)), error_type::kTimeout);
}

TEST_F(SessionsTest, LosesItsNodeWhileItIsMade) {
  open();
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(principal(), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  settle();
  control_->nodes.set({});
  fake_->failProvision(Error{Code::kUnavailable, "node lost", {}});
  fake_->holdProvisions(false);
  const auto made = finish(making);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_EQ(reason(sessions_->list(principal(), {})->at(0)), error_type::kNodeLost);
}

TEST_F(SessionsTest, AProgramAcceptedWhileItEndsIsEndedToo) {
  open();
  const std::string id = created();
  store_->slow = true;
  const auto executing = start(sessions_->exec(principal(), id, program({"hold"}), ""));
  settle();
  const auto ending = start(sessions_->end(principal(), id));
  settle();
  store_->letGo();
  const auto execution = finish(executing);
  ASSERT_TRUE(execution);
  ASSERT_TRUE(finish(ending));
  EXPECT_EQ(ServiceTest::ended(execution->id).status, model::Status::kCancelled);
  EXPECT_EQ(fake_->live(), 0U);
}

TEST_F(SessionsTest, ARenewalThatIsAcknowledgedHolds) {
  open();
  const std::string id = created(asked(Millis(1'000), Millis(60'000)));
  const auto renewed = renew(id, Millis(60'000), Millis(30'000));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(renewed->ttl, Millis(60'000));
  EXPECT_NEAR(static_cast<double>(renewed->expires_at - base::wallMicros()), 30e6, 2e6);
  EXPECT_EQ(storedSession(id).ttl, Millis(60'000));
  EXPECT_THAT(auditOf(id), ElementsAre("session.created", "session.started", "session.renewed"));
  EXPECT_EQ(ran(id, {"sleep", "1100"}).status, model::Status::kCompleted);
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning);
}

TEST_F(SessionsTest, ASlowLedgerDoesNotLoseARenewal) {
  open();
  const std::string id = created(asked(Millis(1'000), Millis(60'000)));
  store_->slow = true;
  const auto renewing =
      start(sessions_->renew(principal(), id, {.ttl = Millis(60'000), .idle_ttl = Millis(60'000)}));
  const auto until = base::monotonicNow() + Millis(1'100);
  while (base::monotonicNow() < until)
    io_->run_for(Millis(10));
  EXPECT_FALSE(renewing->done());
  store_->letGo();
  ASSERT_TRUE(finish(renewing));
  settle();
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning);
}

TEST_F(SessionsTest, WhatARenewalDoesNotSayIsAsItIsByThen) {
  open();
  const std::string id = created(asked(Millis(60'000), Millis(60'000)));
  store_->slow = true;
  const auto longer = start(sessions_->renew(principal(), id, {.ttl = Millis(600'000)}));
  settle();
  const auto plain = start(sessions_->renew(principal(), id, {}));
  settle();
  store_->slow = false;
  store_->letGo();
  ASSERT_TRUE(finish(longer));
  const auto renewed = finish(plain);
  ASSERT_TRUE(renewed);
  EXPECT_EQ(renewed->ttl, Millis(600'000)) << "the other was acknowledged";
  EXPECT_EQ(renewed->idle_ttl, Millis(60'000));
  EXPECT_EQ(storedSession(id).ttl, Millis(600'000));
}

TEST_F(SessionsTest, ARenewalThatIsRefusedChangesNothing) {
  open();
  const std::string id = created(asked(Millis(1'000), Millis(60'000)));
  const int64_t due = shown(id).expires_at;
  store_->full = true;
  EXPECT_EQ(renew(id, Millis(60'000), Millis(60'000)).error().code, Code::kNoSpace);
  store_->full = false;
  EXPECT_EQ(shown(id).ttl, Millis(1'000));
  EXPECT_NEAR(static_cast<double>(shown(id).expires_at), static_cast<double>(due), 1e3);
  EXPECT_EQ(reason(endedSession(id)), error_type::kTimeout);
}

// Renewals from before to after the deadline, against the real watch.
TEST_F(SessionsTest, RenewalsRaceTheEnd) {
  offer_.max_sandboxes = 256;
  open();
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; i++) {
    const std::string id = created();
    std::ignore = renew(id, Millis(20), Millis(60'000));
    const auto at = base::monotonicNow() + std::chrono::microseconds(14'000 + random() % 10'000);
    while (base::monotonicNow() < at)
      settle();
    const auto renewed = renew(id, Millis(60'000), Millis(60'000));
    if (renewed) {
      const auto past = base::monotonicNow() + Millis(10);
      while (base::monotonicNow() < past)
        settle();
      EXPECT_EQ(shown(id).status, SessionStatus::kRunning);
      ASSERT_TRUE(end(id));
    } else {
      EXPECT_EQ(renewed.error().code, Code::kConflict);
      EXPECT_EQ(reason(endedSession(id)), error_type::kTimeout);
    }
  }
}

TEST_F(SessionsTest, AnEndThatTheLedgerRefusesIsNotTold) {
  open();
  const std::string id = created();
  store_->full = true;
  const auto ending = start(sessions_->end(principal(), id));
  runUntil([&] { return store_->refused > 0 && fake_->live() == 0; });
  EXPECT_FALSE(ending->done());
  EXPECT_EQ(shown(id).status, SessionStatus::kRunning);
  EXPECT_EQ(exec(id, {"echo"}).error().code, Code::kConflict);
  EXPECT_FALSE(service_->ready());
  store_->full = false;
  EXPECT_EQ(finish(ending)->status, SessionStatus::kEnded);
  EXPECT_TRUE(service_->ready());
}

// --- a sandbox that never answers
// -------------------------------------------------------------------

// Its programs and teardown never return.
class Stubborn final : public runtime::Sandbox {
 public:
  explicit Stubborn(const boost::asio::any_io_executor& executor)
      : never_(std::make_shared<async::Signal>(executor)) {
    info_.runtime = "stubborn";
  }
  [[nodiscard]] const runtime::SandboxInfo& info() const override { return info_; }
  Task<Result<model::Outcome>> exec(const model::ExecSpec& /*spec*/,
                                    runtime::ExecObserver& /*observer*/) override {
    co_return fail(Code::kDenied, "it is a session's");
  }
  Task<Result<std::unique_ptr<runtime::Exec>>> open(const model::SignedPermit& /*permit*/,
                                                    const model::ExecSpec& /*spec*/) override {
    co_return std::make_unique<Program>(never_);
  }
  Task<SandboxEnd> died() override {
    co_await forever(never_);
    co_return SandboxEnd{};
  }
  void cancel() override {}
  Task<Result<>> teardown() override {
    co_await forever(never_);
    co_return Result<>{};
  }

 private:
  static Task<void> forever(std::shared_ptr<async::Signal> never) {
    while (true)
      co_await never->wait();
  }
  class Program final : public runtime::Exec {
   public:
    explicit Program(std::shared_ptr<async::Signal> never) : never_(std::move(never)) {}
    Task<Result<model::Outcome>> run(runtime::ExecObserver& observer) override {
      observer.onStarted();
      co_await forever(never_);
      co_return model::Outcome{};
    }
    void cancel() override {}
    Task<Result<>> input(std::string /*bytes*/) override { co_return Result<>{}; }
    Result<> signal(int /*number*/) override { return {}; }
    Result<> resize(model::TerminalSize /*size*/) override { return {}; }

   private:
    std::shared_ptr<async::Signal> never_;
  };

  std::shared_ptr<async::Signal> never_;
  runtime::SandboxInfo info_;
};

class StubbornRuntime final : public runtime::Runtime {
 public:
  explicit StubbornRuntime(boost::asio::any_io_executor executor)
      : executor_(std::move(executor)) {}
  Task<Result<std::unique_ptr<runtime::Sandbox>>> provision(
      const model::SignedPermit& /*permit*/) override {
    co_return std::make_unique<Stubborn>(executor_);
  }
  Task<Result<base::json::object>> plan(const model::SignedPermit& /*permit*/) override {
    co_return base::json::object();
  }

 private:
  boost::asio::any_io_executor executor_;
};

TEST_F(SessionsTest, ASandboxThatNeverAnswersDoesNotHoldUpItsEnd) {
  session_config_.patience = {
      .begin = Millis(10), .programs = Millis(20), .tear_down = Millis(30), .late = Millis(40)};
  open(false);
  StubbornRuntime stubborn(io_->get_executor());
  control_->nodes.set({&stubborn, offer_});
  const std::string id = created();
  const std::string held = running(id, {"anything"});
  const auto begin = base::monotonicNow();
  const auto session = end(id);
  ASSERT_TRUE(session);
  EXPECT_LT(base::monotonicNow() - begin, std::chrono::seconds(5));
  EXPECT_EQ(reason(*session), error_type::kCancelled);
  EXPECT_EQ(ServiceTest::ended(held).status, model::Status::kCancelled);
  control_->nodes.set({});
}

}  // namespace
}  // namespace cloister::orchestrator
