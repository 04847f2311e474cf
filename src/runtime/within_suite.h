// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes whose sessions can have sandboxes within theirs, for
// GoogleTest, with the harness of runtime_suite.h:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, WithinSuite, GvisorHarness);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/session_suite.h"

namespace cloister::runtime {

template <class Harness>
class WithinSuite : public SessionSuite<Harness> {
 protected:
  WithinSuite() { this->nested_ = true; }

  // A shell's, in a sandbox of its own, or beside the session's programs.
  model::ExecSpec shell(const std::string& script) {
    model::ExecSpec spec = this->spec(Program::kEcho);
    spec.run.argv = {"sh", "-c", script};
    return spec;
  }
  std::string saysWithin(const std::string& script) { return says(script, true); }
  std::string saysInSession(const std::string& script) { return says(script, false); }

 private:
  std::string says(const std::string& script, bool nested) {
    this->nested_ = nested;
    const auto running = this->start(shell(script));
    this->nested_ = true;
    if (!running) return "";
    const model::Outcome outcome = this->finish(*running);
    EXPECT_EQ(outcome.end, model::End::kExited) << outcome.message;
    EXPECT_EQ(outcome.exit_code, 0) << running->seen.err;
    return running->seen.out;
  }
};

TYPED_TEST_SUITE_P(WithinSuite);

TYPED_TEST_P(WithinSuite, RunsAProgramAndSaysHowItEnded) {
  const auto running = this->start(this->shell("echo out; echo err >&2; id -u; exit 7"));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kExited) << outcome.message;
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(running->seen.out, "out\n1000\n");
  EXPECT_EQ(running->seen.err, "err\n");
}

TYPED_TEST_P(WithinSuite, BringsFilesAndTakesThemBack) {
  auto spec = this->shell("cat given; printf made > result.txt");
  spec.files = {{.path = "given", .content = std::string(300'000, 'g')}};
  spec.artifacts.globs = {"*.txt"};
  const auto running = this->start(spec);
  ASSERT_TRUE(running);
  EXPECT_EQ(this->finish(*running).exit_code, 0);
  EXPECT_TRUE(running->seen.out == std::string(300'000, 'g'));
  ASSERT_EQ(running->seen.files.size(), 1U);
  EXPECT_EQ(running->seen.files.begin()->first, "result.txt");
  EXPECT_EQ(running->seen.files.begin()->second, "made");
}

TYPED_TEST_P(WithinSuite, HasNothingOfTheSession) {
  this->saysInSession("echo secret > kept; echo secret > /tmp/kept; echo secret > /dev/shm/kept");
  EXPECT_EQ(this->saysWithin("ls -A /workspace /tmp /dev/shm | grep -c kept || true"), "0\n");
  EXPECT_EQ(this->saysInSession("cat kept"), "secret\n");
  // Namespaces of its own.
  const std::string names = "for n in pid mnt net ipc uts; do readlink /proc/self/ns/$n; done";
  EXPECT_NE(this->saysWithin(names), this->saysInSession(names));
}

TYPED_TEST_P(WithinSuite, LeavesNothingInTheSession) {
  this->saysWithin("echo left > left; echo left > /tmp/left; sleep 600 & echo started");
  EXPECT_EQ(this->saysInSession("ls -A /workspace /tmp"), "/tmp:\n\n/workspace:\n");
  EXPECT_EQ(this->saysWithin("ls -A /workspace /tmp"), "/tmp:\n\n/workspace:\n");
}

TYPED_TEST_P(WithinSuite, SeesNoProcessOfTheSession) {
  const auto beside = [&] {
    this->nested_ = false;
    auto running = this->start(this->shell("echo here; sleep 600"));
    this->nested_ = true;
    return running;
  }();
  ASSERT_TRUE(beside);
  this->runUntil([&] { return beside->outcome || beside->seen.out == "here\n"; });
  EXPECT_EQ(this->saysWithin("cat /proc/[0-9]*/comm | grep -c sleep || true"), "0\n");
  EXPECT_EQ(this->saysInSession("cat /proc/[0-9]*/comm | grep -c sleep || true"), "1\n");
  beside->exec->cancel();
  EXPECT_EQ(this->finish(*beside).end, model::End::kCancelled);
}

TYPED_TEST_P(WithinSuite, TheirProgramsAreBesideEachOther) {
  std::vector<std::unique_ptr<typename TestFixture::Running>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(
        this->start(this->shell("echo " + std::to_string(i) + " > mine; sleep 0.2; cat mine")));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(all[i]);
    EXPECT_EQ(this->finish(*all[i]).exit_code, 0);
    EXPECT_EQ(all[i]->seen.out, std::to_string(i) + "\n");
  }
}

TYPED_TEST_P(WithinSuite, InputComesWhole) {
  auto spec = this->spec(Program::kCat);
  spec.input = std::string(1'000'000, 'i');
  const auto running = this->start(spec);
  ASSERT_TRUE(running);
  EXPECT_EQ(this->finish(*running).exit_code, 0);
  EXPECT_TRUE(running->seen.out == spec.input);
}

TYPED_TEST_P(WithinSuite, ATimeoutEndsItAndNothingElse) {
  this->limits_.wall = Millis{1'000};
  auto spec = this->shell("echo before; sleep 600");
  spec.run.timeout = Millis{500};
  const auto running = this->start(spec);
  ASSERT_TRUE(running);
  EXPECT_EQ(this->finish(*running).end, model::End::kTimedOut);
  EXPECT_EQ(running->seen.out, "before\n");
  EXPECT_EQ(this->saysInSession("echo usable"), "usable\n");
}

TYPED_TEST_P(WithinSuite, CancelEndsIt) {
  const auto running = this->start(this->shell("echo begun; sleep 600"));
  ASSERT_TRUE(running);
  this->runUntil([&] { return running->outcome || running->seen.out == "begun\n"; });
  running->exec->cancel();
  EXPECT_EQ(this->finish(*running).end, model::End::kCancelled);
  EXPECT_EQ(this->saysWithin("echo next"), "next\n");
}

TYPED_TEST_P(WithinSuite, ItsLimitsHoldInside) {
  // The session's limits are larger than the program's.
  this->limits_.memory_bytes = uint64_t{36} << 20;
  this->limits_.open_files = 64;
  EXPECT_EQ(this->saysWithin("ulimit -n"), "64\n");
  const auto running = this->start(this->shell("head -c 60000000 /dev/zero | tail | wc -c"));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kLimit) << running->seen.out;
  ASSERT_FALSE(outcome.limits.empty());
  EXPECT_EQ(outcome.limits[0].limit, model::limit_name::kMemory);
  this->limits_ = {};
  EXPECT_EQ(this->saysInSession("head -c 40000000 /dev/zero | tail | wc -c"), "40000000\n");
}

TYPED_TEST_P(WithinSuite, ProcessorTimeIsALimitOfItsOwn) {
  this->limits_.cpu_time = Millis{1'000};
  const auto running = this->start(this->spec(Program::kSpin));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kLimit) << outcome.message;
  ASSERT_FALSE(outcome.limits.empty());
  EXPECT_EQ(outcome.limits[0].limit, model::limit_name::kCpuTime);
  this->limits_ = {};
  EXPECT_EQ(this->saysInSession("echo usable"), "usable\n");
}

TYPED_TEST_P(WithinSuite, CanDoNothingAProgramCannot) {
  EXPECT_EQ(this->saysWithin("mount -t tmpfs none /tmp 2>/dev/null || echo refused"), "refused\n");
  EXPECT_EQ(this->saysWithin("unshare -m true 2>/dev/null || echo refused"), "refused\n");
  EXPECT_EQ(this->saysWithin("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -vc "
                             "0000000000000000 || true"),
            "0\n");
  EXPECT_EQ(this->saysInSession("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -vc "
                                "0000000000000000 || true"),
            "0\n");
  EXPECT_EQ(this->saysWithin("touch /usr/made 2>/dev/null || echo refused"), "refused\n");
}

TYPED_TEST_P(WithinSuite, MayWriteWhereItsSessionMay) {
  ASSERT_TRUE(async::runTask(this->harness_.io(), this->session_->teardown()));
  this->walls_.writes = model::Walls::Writes::kNone;
  this->walls_.writable = {{model::kMayWrite, false, "/workspace/only-this"}};
  auto made = async::runTask(this->harness_.io(),
                             this->harness_.runtime().provision(this->permit(nullptr)));
  ASSERT_TRUE(made) << made.error().message;
  this->session_ = *std::move(made);
  const std::string script =
      "for f in new /tmp/new /dev/shm/new; do (: >$f) 2>/dev/null && echo REACHED; done\n"
      "echo x >only-this && cat only-this";
  EXPECT_EQ(this->saysInSession(script), "x\n");
  EXPECT_EQ(this->saysWithin(script), "x\n");
}

TYPED_TEST_P(WithinSuite, AMissingProgramFailsAsInAShell) {
  const auto running = this->start(this->spec(Program::kMissing));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kExited);
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_THAT(running->seen.err, testing::HasSubstr(this->spec(Program::kMissing).run.argv[0]));
}

TYPED_TEST_P(WithinSuite, TheSessionsEndIsItsEnd) {
  const auto running = this->start(this->shell("echo begun; sleep 600"));
  ASSERT_TRUE(running);
  this->runUntil([&] { return running->outcome || running->seen.out == "begun\n"; });
  const auto done = async::runTask(this->harness_.io(), this->session_->teardown());
  EXPECT_TRUE(done);
  this->runUntil([&] { return running->outcome.has_value(); });
  ASSERT_TRUE(running->outcome);
  this->session_.reset();
  EXPECT_EQ(this->harness_.left(), 0U);
}

REGISTER_TYPED_TEST_SUITE_P(WithinSuite, RunsAProgramAndSaysHowItEnded, BringsFilesAndTakesThemBack,
                            HasNothingOfTheSession, LeavesNothingInTheSession,
                            SeesNoProcessOfTheSession, TheirProgramsAreBesideEachOther,
                            InputComesWhole, ATimeoutEndsItAndNothingElse, CancelEndsIt,
                            ItsLimitsHoldInside, ProcessorTimeIsALimitOfItsOwn,
                            CanDoNothingAProgramCannot, MayWriteWhereItsSessionMay,
                            AMissingProgramFailsAsInAShell, TheSessionsEndIsItsEnd);

}  // namespace cloister::runtime
