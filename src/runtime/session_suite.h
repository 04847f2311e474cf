// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes that have sessions, with the harness of runtime_suite.h:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Process, SessionSuite, ProcessHarness);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "runtime/runtime.h"
#include "runtime/suite_programs.h"
#include "wire/files_codec.h"
#include "wire/node.h"

namespace cloister::runtime {

template <class Harness>
class SessionSuite : public SuiteOf<Harness> {
 protected:
  struct Running {
    explicit Running(const boost::asio::any_io_executor& executor) : seen(executor) {}
    std::unique_ptr<Exec> exec;
    Collector seen;
    std::optional<Result<model::Outcome>> outcome;
  };

  void SetUp() override {
    SuiteOf<Harness>::SetUp();
    if (this->IsSkipped()) return;
    auto made = async::runTask(harness_.io(), harness_.runtime().provision(permit(nullptr)));
    ASSERT_TRUE(made) << made.error().message;
    session_ = *std::move(made);
  }
  void TearDown() override {
    if (!session_) return;
    const auto done = async::runTask(harness_.io(), session_->teardown());
    EXPECT_TRUE(done) << done.error().message;
    session_.reset();
    EXPECT_EQ(harness_.left(), 0U);
  }

  // A permit to make the session, or to run `of` in the session.
  model::SignedPermit permit(const model::ExecSpec* of, const std::string& session = "ses_suite") {
    model::Limits limits = limits_;
    model::settle(limits);
    const int64_t now = base::wallMicros();
    return harness_.sign(
        {.id = base::newId("permit"),
         .execution_id = of == nullptr ? std::string() : base::newId("exec"),
         .session_id = session,
         .tenant = "suite",
         .policy_id = "suite",
         .runtime = harness_.runtimeName(),
         .image = "host",
         .network_tier = "none",
         .limits = limits,
         .walls = of == nullptr ? walls_ : model::Walls{},
         .spec_sha256 = of == nullptr ? "" : base::sha256Hex(wire::encodeExecSpec(*of)),
         .prestart = "",
         .nested = nested_,
         .fresh = fresh_,
         .not_before = now,
         .expires = now + 60'000'000});
  }

  model::ExecSpec spec(Program program, const std::vector<std::string>& args = {}) {
    model::ExecSpec made;
    made.run = {harness_.argv(program, args), Millis{30'000}};
    made.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace"};
    return made;
  }

  Result<std::unique_ptr<Exec>> open(const model::ExecSpec& of) {
    return async::runTask(harness_.io(), session_->open(permit(&of), of));
  }

  std::unique_ptr<Running> start(const model::ExecSpec& of) {
    auto running = std::make_unique<Running>(harness_.io().get_executor());
    auto exec = open(of);
    if (!exec) {
      ADD_FAILURE() << exec.error().message;
      return nullptr;
    }
    running->exec = *std::move(exec);
    async::spawn(harness_.io().get_executor(), [](Running& it) -> Task<void> {
      it.outcome = co_await it.exec->run(it.seen);
    }(*running));
    return running;
  }

  template <class Condition>
  void runUntil(Condition condition) {
    harness_.io().restart();
    while (!condition() && harness_.io().run_one() > 0) {
    }
  }

  model::Outcome finish(Running& running) {
    runUntil([&] { return running.outcome.has_value(); });
    if (!running.outcome || !*running.outcome) {
      ADD_FAILURE() << (running.outcome ? running.outcome->error().message : "it did not end");
      return {};
    }
    return **running.outcome;
  }

  std::string output(Program program, const std::vector<std::string>& args) {
    const auto running = start(spec(program, args));
    if (!running) return "";
    EXPECT_EQ(finish(*running).exit_code, 0);
    return running->seen.out;
  }

  using SuiteOf<Harness>::harness_;
  std::unique_ptr<Sandbox> session_;
  model::Limits limits_;  // for the next permits, as the following members
  model::Walls walls_;    // of the session
  bool fresh_ = false;
  bool nested_ = false;
};

TYPED_TEST_SUITE_P(SessionSuite);

TYPED_TEST_P(SessionSuite, KeepsWhatAProgramMade) {
  EXPECT_EQ(this->output(Program::kWrite, {"kept", "content"}), "");
  EXPECT_EQ(this->output(Program::kShow, {"kept"}), "content");
}

TYPED_TEST_P(SessionSuite, ServesItsFiles) {
  const auto ask = [&](const std::vector<std::string>& request, const std::string& input) {
    auto spec = this->spec(Program::kCat);
    spec.run.argv = request;
    spec.for_files = true;
    spec.input = input;
    const auto running = this->start(spec);
    if (!running) return std::pair(-1, std::string());
    const int code = this->finish(*running).exit_code;
    return std::pair(code, code == 0 ? running->seen.out : running->seen.err);
  };
  EXPECT_EQ(ask({"write", "kept", ""}, "content").first, 0);
  EXPECT_EQ(this->output(Program::kShow, {"kept"}), "content");
  const auto read = ask({"read", "kept", "3", "2"}, "");
  std::string_view rest = read.second;
  const auto part = wire::files::takePart(rest);
  ASSERT_TRUE(part && *part) << read.first;
  EXPECT_EQ(std::get<wire::files::Entry>(**part).size, 7U);
  EXPECT_EQ(rest, "te");
  const auto gone = ask({"read", "gone", "0", "1"}, "");
  EXPECT_EQ(gone.first, wire::files::kFailed);
  EXPECT_EQ(wire::files::failure(gone.second).code, Code::kNotFound);
}

TYPED_TEST_P(SessionSuite, RunsProgramsBesideEachOther) {
  auto waits = this->spec(Program::kCat);
  waits.keep_input = true;
  const auto one = this->start(waits);
  ASSERT_TRUE(one);
  EXPECT_EQ(this->output(Program::kEcho, {"two"}), "two\n");
  EXPECT_FALSE(one->outcome);
  ASSERT_TRUE(async::runTask(this->harness_.io(), one->exec->input("one")));
  ASSERT_TRUE(async::runTask(this->harness_.io(), one->exec->input("")));
  EXPECT_EQ(this->finish(*one).end, model::End::kExited);
  EXPECT_EQ(one->seen.out, "one");
}

TYPED_TEST_P(SessionSuite, InputComesInOrderAndEnds) {
  auto cat = this->spec(Program::kCat);
  cat.input = "0 ";
  cat.keep_input = true;
  const auto running = this->start(cat);
  ASSERT_TRUE(running);
  std::string sent = cat.input;
  for (int i = 1; i < 40; ++i) {
    const std::string piece = std::to_string(i) + std::string(20'000, ' ');
    ASSERT_TRUE(async::runTask(this->harness_.io(), running->exec->input(piece)));
    sent += piece;
  }
  ASSERT_TRUE(async::runTask(this->harness_.io(), running->exec->input("")));
  EXPECT_EQ(this->finish(*running).exit_code, 0);
  EXPECT_EQ(running->seen.out, sent);
  const auto late = async::runTask(this->harness_.io(), running->exec->input("late"));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);
}

TYPED_TEST_P(SessionSuite, NoInputForAProgramThatWasStartedWithout) {
  const auto running = this->start(this->spec(Program::kSleep, {"20"}));
  ASSERT_TRUE(running);
  const auto sent = async::runTask(this->harness_.io(), running->exec->input("x"));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kConflict);
  EXPECT_EQ(this->finish(*running).end, model::End::kExited);
}

TYPED_TEST_P(SessionSuite, ATimeoutLeavesTheSessionUsable) {
  auto late = this->spec(Program::kSleep, {"60000"});
  late.run.timeout = Millis{100};
  const auto running = this->start(late);
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kTimedOut);
  EXPECT_EQ(outcome.signal, SIGKILL);
  EXPECT_EQ(this->output(Program::kEcho, {"alive"}), "alive\n");
}

TYPED_TEST_P(SessionSuite, CancelEndsOneProgram) {
  const auto one = this->start(this->spec(Program::kSleep, {"60000"}));
  const auto two = this->start(this->spec(Program::kSleep, {"60000"}));
  ASSERT_TRUE(one && two);
  this->runUntil([&] { return one->seen.started > 0 && two->seen.started > 0; });
  one->exec->cancel();
  one->exec->cancel();
  EXPECT_EQ(this->finish(*one).end, model::End::kCancelled);
  EXPECT_FALSE(two->outcome);
  two->exec->cancel();
  EXPECT_EQ(this->finish(*two).end, model::End::kCancelled);
}

TYPED_TEST_P(SessionSuite, GivesUpAProgramThatNeverRan) {
  const auto made = this->spec(Program::kSleep, {"60000"});
  {
    const auto never_run = this->open(made);
  }
  EXPECT_EQ(this->output(Program::kEcho, {"alive"}), "alive\n");
}

TYPED_TEST_P(SessionSuite, LosesNothingToASlowObserver) {
  const auto running = this->start(this->spec(Program::kFlood, {"1000000"}));
  ASSERT_TRUE(running);
  running->seen.delay = Millis{1};
  EXPECT_EQ(this->output(Program::kEcho, {"beside"}), "beside\n");
  EXPECT_EQ(this->finish(*running).end, model::End::kExited);
  EXPECT_EQ(running->seen.out.size(), 1'000'000U);
}

TYPED_TEST_P(SessionSuite, TeardownEndsItsPrograms) {
  const auto running = this->start(this->spec(Program::kSleep, {"60000"}));
  ASSERT_TRUE(running);
  this->runUntil([&] { return running->seen.started > 0; });
  ASSERT_TRUE(async::runTask(this->harness_.io(), this->session_->teardown()));
  this->runUntil([&] { return running->outcome.has_value(); });
  ASSERT_TRUE(running->outcome);
  const bool lost = *running->outcome ? (*running->outcome)->end == model::End::kRunnerLost ||
                                            (*running->outcome)->end == model::End::kCancelled
                                      : true;
  EXPECT_TRUE(lost);
  EXPECT_EQ(async::runTask(this->harness_.io(), this->session_->died()).kind,
            model::SandboxEnd::Kind::kTornDown);
  EXPECT_FALSE(this->open(this->spec(Program::kEcho, {"late"})));
  this->session_.reset();
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(SessionSuite, AMissingProgramFailsAsInAShell) {
  const auto running = this->start(this->spec(Program::kMissing));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kExited);
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_THAT(running->seen.err, testing::HasSubstr(this->spec(Program::kMissing).run.argv[0]));
  EXPECT_EQ(running->seen.started, 1);
}

// memory_suite.h tests the supported case.
TYPED_TEST_P(SessionSuite, SaysWhetherItsMemoryCanBeKept) {
  bool keeps = false;
  if constexpr (requires { this->harness_.keepsMemory(); }) keeps = this->harness_.keepsMemory();
  auto made = this->spec(Program::kEcho);
  made.run.argv = {wire::files::kCheckpoint};
  made.for_files = true;
  Result<model::Outcome> outcome = fail(Code::kInternal, "");
  if (auto exec = this->open(made)) {
    Collector seen(this->harness_.io().get_executor());
    outcome = async::runTask(this->harness_.io(), (*exec)->run(seen));
  } else {
    outcome = std::unexpected(exec.error());
  }
  if (!outcome) EXPECT_EQ(outcome.error().code, Code::kUnsupported) << outcome.error().message;
  EXPECT_EQ(outcome && outcome->exit_code == 0, keeps);
  EXPECT_EQ(this->output(Program::kEcho, {"alive"}), "alive\n");
}

REGISTER_TYPED_TEST_SUITE_P(SessionSuite, SaysWhetherItsMemoryCanBeKept, KeepsWhatAProgramMade,
                            ServesItsFiles, RunsProgramsBesideEachOther, InputComesInOrderAndEnds,
                            NoInputForAProgramThatWasStartedWithout, ATimeoutLeavesTheSessionUsable,
                            CancelEndsOneProgram, GivesUpAProgramThatNeverRan,
                            LosesNothingToASlowObserver, TeardownEndsItsPrograms,
                            AMissingProgramFailsAsInAShell);

}  // namespace cloister::runtime
