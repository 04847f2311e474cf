// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes, for GoogleTest. A runtime's test gives a Harness and says
//   INSTANTIATE_TYPED_TEST_SUITE_P(Process, RuntimeSuite, ProcessHarness);
// A Harness is default-constructible and has
//   boost::asio::io_context& io();
//   runtime::Runtime& runtime();
//   model::SignedPermit sign(const model::PermitFields&);      as this runtime wants it
//   std::string runtimeName();                                 for permit.runtime
//   std::vector<std::string> argv(Program, std::vector<std::string> args);
//   std::string lacks(Program);   "" or why this machine or runtime cannot: the test is skipped
//   size_t left();                sandboxes, cgroups, mounts … that are still there
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "runtime/runtime.h"
#include "runtime/suite_programs.h"
#include "wire/node.h"

namespace cloister::runtime {

template <class Harness>
class RuntimeSuite : public SuiteOf<Harness> {
 protected:
  struct Ran {
    model::Outcome outcome;
    std::unique_ptr<Collector> seen;
  };

  model::ExecSpec spec(Program program, const std::vector<std::string>& args = {}) {
    model::ExecSpec made;
    made.run = {harness_.argv(program, args), limits_.wall};
    made.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace"};
    made.artifacts.globs = {"**"};
    return made;
  }

  model::SignedPermit permit(const model::ExecSpec& of) {
    model::settle(limits_);
    const int64_t now = base::wallMicros();
    return harness_.sign({.id = base::newId("permit"),
                          .execution_id = base::newId("exec"),
                          .session_id = "",
                          .tenant = "suite",
                          .policy_id = "suite",
                          .runtime = harness_.runtimeName(),
                          .image = "host",
                          .network_tier = "none",
                          .limits = limits_,
                          .spec_sha256 = base::sha256Hex(wire::encodeExecSpec(of)),
                          .prestart = "",
                          .not_before = now,
                          .expires = now + 60'000'000});
  }

  std::unique_ptr<Sandbox> provision(const model::ExecSpec& of) {
    auto sandbox = async::runTask(harness_.io(), harness_.runtime().provision(permit(of)));
    if (!sandbox) {
      ADD_FAILURE() << sandbox.error().message;
      return nullptr;
    }
    return *std::move(sandbox);
  }

  Result<model::Outcome> exec(Sandbox& sandbox, const model::ExecSpec& of, Collector& seen) {
    return async::runTask(harness_.io(), sandbox.exec(of, seen));
  }

  void tearDown(Sandbox& sandbox) {
    const auto done = async::runTask(harness_.io(), sandbox.teardown());
    EXPECT_TRUE(done) << done.error().message;
  }

  Ran run(const model::ExecSpec& of, Millis delay = Millis{0}) {
    Ran ran{{}, std::make_unique<Collector>(harness_.io().get_executor())};
    ran.seen->delay = delay;
    const auto sandbox = provision(of);
    if (!sandbox) return ran;
    auto outcome = exec(*sandbox, of, *ran.seen);
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (outcome) ran.outcome = *std::move(outcome);
    tearDown(*sandbox);
    return ran;
  }
  Ran run(Program program, const std::vector<std::string>& args = {}) {
    return run(spec(program, args));
  }

  using SuiteOf<Harness>::harness_;
  model::Limits limits_;
};

TYPED_TEST_SUITE_P(RuntimeSuite);

#define CLOISTER_NEEDS(program) \
  if (const auto why = this->harness_.lacks(program); !why.empty()) GTEST_SKIP() << why

TYPED_TEST_P(RuntimeSuite, TellsHowAProgramEnded) {
  const auto fine = this->run(Program::kEcho, {"hello world"});
  EXPECT_EQ(std::pair(fine.outcome.end, fine.outcome.exit_code), std::pair(model::End::kExited, 0));
  EXPECT_EQ(fine.seen->out, "hello world\n");
  EXPECT_EQ(fine.seen->err, "");
  EXPECT_EQ(fine.seen->started, 1);
  EXPECT_TRUE(fine.outcome.limits.empty());
  EXPECT_GT(fine.outcome.started_at, 0);
  EXPECT_GE(fine.outcome.finished_at, fine.outcome.started_at);
  const std::string name = this->harness_.runtimeName();  // unknown with a guest's kernel
  EXPECT_EQ(fine.outcome.usage.processes > 0U, name != "gvisor" && name != "microvm");
  EXPECT_EQ(fine.outcome.usage.disk_limit_bytes, model::scratchBytes(this->limits_));
  const auto seven = this->run(Program::kExit, {"7"});
  EXPECT_EQ(seven.outcome.end, model::End::kExited);
  EXPECT_EQ(seven.outcome.exit_code, 7);

  const auto segv = this->run(Program::kSegv);
  EXPECT_EQ(segv.outcome.end, model::End::kSignaled);
  EXPECT_EQ(segv.outcome.signal, 11);
}

TYPED_TEST_P(RuntimeSuite, AMissingProgramFailsAsInAShell) {
  const auto ran = this->run(Program::kMissing);
  EXPECT_EQ(std::pair(ran.outcome.end, ran.outcome.exit_code), std::pair(model::End::kExited, 127));
  EXPECT_THAT(ran.seen->err, testing::HasSubstr(this->spec(Program::kMissing).run.argv[0]));
  EXPECT_EQ(ran.seen->started, 1);
}

TYPED_TEST_P(RuntimeSuite, GivesInputArgumentsEnvironmentAndFiles) {
  auto cat = this->spec(Program::kCat);
  cat.input = std::string("line\0two\n\xff", 10);
  EXPECT_EQ(this->run(cat).seen->out, cat.input);
  EXPECT_EQ(this->run(Program::kCat).seen->out, "");

  EXPECT_EQ(this->run(Program::kEcho, {"a  b 'c' $d \xc3\xa9"}).seen->out,
            "a  b 'c' $d \xc3\xa9\n");
  EXPECT_EQ(this->run(Program::kErr, {"word"}).seen->err, "word\n");

  auto env = this->spec(Program::kEnv);
  env.env.push_back("GREETING=hello=you");
  EXPECT_NE(this->run(env).seen->out.find("GREETING=hello=you\n"), std::string::npos);

  auto show = this->spec(Program::kShow, {"sub/note.txt"});
  show.files.push_back({"sub/note.txt", "contents", 0644});
  EXPECT_EQ(this->run(show).seen->out, "contents");
}

TYPED_TEST_P(RuntimeSuite, KeepsTheOrderWithinEachStream) {
  const auto ran = this->run(Program::kMix, {"200"});
  std::string even;
  std::string odd;
  for (int i = 0; i < 200; i++)
    (i % 2 == 0 ? even : odd) += std::to_string(i) + "\n";
  EXPECT_EQ(ran.seen->out, even);
  EXPECT_EQ(ran.seen->err, odd);
}

TYPED_TEST_P(RuntimeSuite, LosesNothingToASlowObserver) {
  constexpr size_t kBytes = size_t{3} << 20;
  const auto ran = this->run(this->spec(Program::kFlood, {std::to_string(kBytes)}), Millis{1});
  EXPECT_EQ(ran.outcome.end, model::End::kExited);
  EXPECT_EQ(ran.seen->out.size(), kBytes);
  EXPECT_EQ(ran.seen->out.find_first_not_of('x'), std::string::npos);
}

TYPED_TEST_P(RuntimeSuite, EndsAProgramAtItsWallTime) {
  this->limits_.wall = Millis{200};
  const auto ran = this->run(Program::kSleep, {"60000"});
  EXPECT_EQ(std::pair(ran.outcome.end, ran.outcome.signal),
            std::pair(model::End::kTimedOut, SIGKILL));
  EXPECT_GE(ran.outcome.usage.wall_ms, 200);
  EXPECT_LT(ran.outcome.usage.wall_ms, 5000);
}

TYPED_TEST_P(RuntimeSuite, CancelsAProgram) {
  const auto spec = this->spec(Program::kFlood, {"1000000000000"});
  const auto sandbox = this->provision(spec);
  ASSERT_TRUE(sandbox);
  Collector seen(this->harness_.io().get_executor());
  seen.on_output = [&] { sandbox->cancel(); };
  const auto outcome = this->exec(*sandbox, spec, seen);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->end, model::End::kCancelled);
  sandbox->cancel();  // nothing runs: nothing happens
  this->tearDown(*sandbox);
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(RuntimeSuite, EndsAProgramThatNeedsTooMuchMemory) {
  CLOISTER_NEEDS(Program::kMemory);
  this->limits_.memory_bytes = uint64_t{32} << 20;
  const auto ran = this->run(Program::kMemory, {std::to_string(256U << 20)});
  EXPECT_EQ(std::pair(ran.outcome.end, ran.outcome.signal), std::pair(model::End::kLimit, SIGKILL));
  const auto* hit = findHit(ran.outcome, model::limit_name::kMemory);
  ASSERT_NE(hit, nullptr);
  EXPECT_EQ(hit->value, this->limits_.memory_bytes);
  EXPECT_TRUE(hit->fatal);
  EXPECT_EQ(ran.outcome.limits.front().limit, model::limit_name::kMemory);
}

TYPED_TEST_P(RuntimeSuite, EndsAProgramAtItsProcessorTime) {
  CLOISTER_NEEDS(Program::kSpin);
  this->limits_.cpu_time = Millis{1000};
  const auto ran = this->run(Program::kSpin, {"60000"});
  EXPECT_EQ(ran.outcome.end, model::End::kLimit);
  const auto* hit = findHit(ran.outcome, model::limit_name::kCpuTime);
  ASSERT_NE(hit, nullptr);
  EXPECT_EQ(hit->value, 1000U);
  EXPECT_TRUE(hit->fatal);
}

TYPED_TEST_P(RuntimeSuite, HoldsProcessesToTheirNumber) {
  CLOISTER_NEEDS(Program::kFork);
  this->limits_.pids = 16;
  const auto ran = this->run(Program::kFork, {"100"});
  const auto* hit = findHit(ran.outcome, model::limit_name::kPids);
  ASSERT_NE(hit, nullptr);
  EXPECT_EQ(hit->value, 16U);
  EXPECT_FALSE(hit->fatal);
  EXPECT_LE(ran.outcome.usage.processes.value_or(0), 16U);
}

TYPED_TEST_P(RuntimeSuite, HoldsFilesToTheirSpace) {
  CLOISTER_NEEDS(Program::kDisk);
  this->limits_.memory_bytes = uint64_t{64} << 20;
  this->limits_.disk_bytes = uint64_t{4} << 20;
  auto spec = this->spec(Program::kDisk, {std::to_string(16U << 20)});
  spec.artifacts.globs.clear();
  const auto ran = this->run(spec);
  EXPECT_EQ(ran.outcome.end, model::End::kExited);
  EXPECT_NE(ran.outcome.exit_code, 0);
  const auto* hit = findHit(ran.outcome, model::limit_name::kDisk);
  ASSERT_NE(hit, nullptr);
  EXPECT_FALSE(hit->fatal);
}

TYPED_TEST_P(RuntimeSuite, CollectsNewFilesThatMatch) {
  const auto kept = this->run(Program::kWrite, {"plot.txt", "some text"});
  EXPECT_EQ(kept.seen->files, (std::map<std::string, std::string>{{"plot.txt", "some text"}}));
  EXPECT_EQ(kept.seen->sizes.at("plot.txt"), 9U);
  EXPECT_FALSE(kept.outcome.artifacts_truncated);

  auto none = this->spec(Program::kWrite, {"plot.txt", "some text"});
  none.artifacts.globs = {"*.png"};
  EXPECT_TRUE(this->run(none).seen->files.empty());

  auto small = this->spec(Program::kWrite, {"plot.txt", "some text"});
  small.artifacts.max_bytes = 4;
  const auto cut = this->run(small);
  EXPECT_TRUE(cut.seen->files.empty());
  EXPECT_TRUE(cut.outcome.artifacts_truncated);
}

TYPED_TEST_P(RuntimeSuite, LeavesNothingBehind) {
  EXPECT_EQ(this->run(Program::kEcho, {"x"}).outcome.exit_code, 0);
  EXPECT_EQ(this->harness_.left(), 0U);
  const auto spec = this->spec(Program::kEcho, {"x"});
  {
    const auto never_run = this->provision(spec);
    const auto torn = this->provision(spec);
    ASSERT_TRUE(never_run && torn);
    EXPECT_FALSE(never_run->info().runtime.empty());
    EXPECT_TRUE(tellsItsImage(never_run->info()));
    this->tearDown(*never_run);
    this->tearDown(*torn);
  }
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(RuntimeSuite, PlansWithoutStarting) {
  const auto spec = this->spec(Program::kEcho, {"x"});
  const auto plan =
      async::runTask(this->harness_.io(), this->harness_.runtime().plan(this->permit(spec)));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->empty());
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(RuntimeSuite, RefusesWhatIsNoPermit) {
  const model::SignedPermit garbage{"not a permit", std::string(64, 's')};
  EXPECT_FALSE(async::runTask(this->harness_.io(), this->harness_.runtime().provision(garbage)));
  EXPECT_EQ(this->harness_.left(), 0U);
}

REGISTER_TYPED_TEST_SUITE_P(RuntimeSuite, TellsHowAProgramEnded, AMissingProgramFailsAsInAShell,
                            GivesInputArgumentsEnvironmentAndFiles, KeepsTheOrderWithinEachStream,
                            LosesNothingToASlowObserver, EndsAProgramAtItsWallTime, CancelsAProgram,
                            EndsAProgramThatNeedsTooMuchMemory, EndsAProgramAtItsProcessorTime,
                            HoldsProcessesToTheirNumber, HoldsFilesToTheirSpace,
                            CollectsNewFilesThatMatch, LeavesNothingBehind, PlansWithoutStarting,
                            RefusesWhatIsNoPermit);

}  // namespace cloister::runtime
