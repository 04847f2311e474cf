// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes that can give a session's program a sandbox of its own with the
// session's workspace, for GoogleTest, with the harness of runtime_suite.h:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Process, FreshSuite, ProcessHarness);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/session_suite.h"
#include "wire/files.h"

namespace cloister::runtime {

template <class Harness>
class FreshSuite : public SessionSuite<Harness> {
 protected:
  using Running = typename SessionSuite<Harness>::Running;

  // With a guest's kernel, only a session prepared for nesting can have inner sandboxes.
  FreshSuite() { this->nested_ = this->harness_.runtimeName() != "process"; }

  model::ExecSpec shell(const std::string& script) {
    model::ExecSpec spec = this->spec(Program::kEcho);
    spec.run.argv = {"sh", "-c", script};
    return spec;
  }
  std::unique_ptr<Running> startFresh(const model::ExecSpec& spec) { return begin(spec, true); }
  std::unique_ptr<Running> startInSession(const model::ExecSpec& spec) {
    return begin(spec, false);
  }
  std::string saysFresh(const std::string& script) { return says(startFresh(shell(script))); }
  std::string saysInSession(const std::string& script) {
    return says(startInSession(shell(script)));
  }
  void untilItSays(Running& running, const std::string& text) {
    this->runUntil([&] { return running.outcome || running.seen.out == text; });
  }

 private:
  std::unique_ptr<Running> begin(const model::ExecSpec& spec, bool fresh) {
    const bool nested = std::exchange(this->nested_, false);
    this->fresh_ = fresh;
    auto running = this->start(spec);
    this->fresh_ = false;
    this->nested_ = nested;
    return running;
  }
  std::string says(const std::unique_ptr<Running>& running) {
    if (!running) return "";
    const model::Outcome outcome = this->finish(*running);
    EXPECT_EQ(outcome.end, model::End::kExited) << outcome.message;
    EXPECT_EQ(outcome.exit_code, 0) << running->seen.err;
    return running->seen.out;
  }
};

TYPED_TEST_SUITE_P(FreshSuite);

TYPED_TEST_P(FreshSuite, HasTheWorkspaceAndNothingElse) {
  this->saysInSession("echo kept > kept; echo secret > /tmp/kept; echo secret > /dev/shm/kept");
  const auto beside = this->startInSession(this->shell("echo here; sleep 600"));
  ASSERT_TRUE(beside);
  this->untilItSays(*beside, "here\n");
  EXPECT_EQ(this->saysFresh("id -u; pwd; cat kept; ls -A /tmp /dev/shm | grep -c kept\n"
                            "cat /proc/[0-9]*/comm | grep -c sleep\n"
                            "echo changed > kept; mkdir made; echo new > made/file"),
            "1000\n/workspace\nkept\n0\n0\n");
  EXPECT_EQ(this->saysInSession("cat kept made/file; rm -r made; cat /tmp/kept"),
            "changed\nnew\nsecret\n");
  auto elsewhere = this->shell("pwd");
  elsewhere.cwd = "/workspace/deep";
  this->saysInSession("mkdir deep");
  const auto deep = this->startFresh(elsewhere);
  ASSERT_TRUE(deep);
  EXPECT_EQ(this->finish(*deep).exit_code, 0);
  EXPECT_EQ(deep->seen.out, "/workspace/deep\n");
  const std::string names = "for n in pid mnt net ipc uts; do readlink /proc/self/ns/$n; done";
  const std::string own = this->saysFresh(names);
  const std::string sessions = this->saysInSession(names);
  for (size_t at = 0, end = 0; (end = own.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_EQ(sessions.find(own.substr(at, end - at)), std::string::npos) << own << sessions;
  beside->exec->cancel();
  EXPECT_EQ(this->finish(*beside).end, model::End::kCancelled);
}

TYPED_TEST_P(FreshSuite, LeavesFilesInTheWorkspaceAndNothingElse) {
  this->saysFresh("echo left > left; echo left > /tmp/left; sleep 600 & echo started");
  EXPECT_EQ(
      this->saysInSession("ls -A /workspace /tmp; cat /proc/[0-9]*/comm | grep -c sleep || :"),
      "/tmp:\n\n/workspace:\nleft\n0\n");
  EXPECT_EQ(this->saysFresh("ls -A /workspace /tmp"), "/tmp:\n\n/workspace:\nleft\n");
}

TYPED_TEST_P(FreshSuite, BringsFilesAndTakesBackWhatIsNew) {
  this->saysInSession("echo old > old.txt");
  auto spec = this->shell("cat given; printf made > result.txt");
  spec.files = {{.path = "given", .content = std::string(300'000, 'g')}};
  spec.artifacts.globs = {"*.txt"};
  spec.input = "input";
  const auto running = this->startFresh(spec);
  ASSERT_TRUE(running);
  EXPECT_EQ(this->finish(*running).exit_code, 0);
  EXPECT_TRUE(running->seen.out == std::string(300'000, 'g'));
  ASSERT_EQ(running->seen.files.size(), 1U);
  EXPECT_EQ(running->seen.files.begin()->first, "result.txt");
  EXPECT_EQ(running->seen.files.begin()->second, "made");
}

TYPED_TEST_P(FreshSuite, ItsCodeIsGoneAfterIt) {
  auto spec = this->shell(". /workspace/.cloister-1; exec sleep 600");
  spec.files = {{.path = ".cloister-1", .content = "cp /workspace/.cloister-1 ran; echo ran"}};
  spec.temporary = {"/workspace/.cloister-1", "/tmp/.cloister-made"};
  for (const bool fresh : {true, false}) {
    this->saysInSession("rm -f ran; mkdir /tmp/.cloister-made; : > /tmp/.cloister-made/x");
    const auto running = fresh ? this->startFresh(spec) : this->startInSession(spec);
    ASSERT_TRUE(running);
    this->untilItSays(*running, "ran\n");
    running->exec->cancel();
    EXPECT_EQ(this->finish(*running).end, model::End::kCancelled);
    EXPECT_EQ(this->saysInSession("ls -A /tmp /workspace"), "/tmp:\n\n/workspace:\nran\n");
  }
}

TYPED_TEST_P(FreshSuite, AreBesideEachOther) {
  std::vector<std::unique_ptr<typename TestFixture::Running>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(
        this->startFresh(this->shell("echo " + std::to_string(i) + " >> all; sleep 0.2")));
  for (const auto& each : all) {
    ASSERT_TRUE(each);
    EXPECT_EQ(this->finish(*each).exit_code, 0);
  }
  EXPECT_EQ(this->saysInSession("sort all"), "0\n1\n2\n");
}

TYPED_TEST_P(FreshSuite, ItsLimitsAreItsOwn) {
  this->limits_.memory_bytes = uint64_t{36} << 20;
  this->limits_.open_files = 64;
  EXPECT_EQ(this->saysFresh("ulimit -n"), "64\n");
  const auto running = this->startFresh(this->shell("head -c 60000000 /dev/zero | tail | wc -c"));
  ASSERT_TRUE(running);
  const model::Outcome outcome = this->finish(*running);
  EXPECT_EQ(outcome.end, model::End::kLimit) << running->seen.out;
  ASSERT_FALSE(outcome.limits.empty());
  EXPECT_EQ(outcome.limits[0].limit, model::limit_name::kMemory);
  this->limits_ = {};
  EXPECT_EQ(this->saysInSession("head -c 40000000 /dev/zero | tail | wc -c"), "40000000\n");
}

TYPED_TEST_P(FreshSuite, ATimeoutOrCancelEndsItAndNothingElse) {
  auto spec = this->shell("echo before; sleep 600");
  spec.run.timeout = Millis{500};
  const auto late = this->startFresh(spec);
  ASSERT_TRUE(late);
  EXPECT_EQ(this->finish(*late).end, model::End::kTimedOut);
  EXPECT_EQ(late->seen.out, "before\n");
  const auto cancelled = this->startFresh(this->shell("echo before; sleep 600"));
  ASSERT_TRUE(cancelled);
  this->untilItSays(*cancelled, "before\n");
  cancelled->exec->cancel();
  EXPECT_EQ(this->finish(*cancelled).end, model::End::kCancelled);
  EXPECT_EQ(this->saysInSession("echo usable"), "usable\n");
}

TYPED_TEST_P(FreshSuite, MayWriteWhereItsSessionMay) {
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
  EXPECT_EQ(this->saysFresh(script), "x\n");
}

// Its files would change during the reading.
TYPED_TEST_P(FreshSuite, TheWorkspaceIsNotSavedMeanwhile) {
  auto save = this->shell("");
  save.for_files = true;
  save.run.argv = {wire::files::kSave};
  const auto running = this->startFresh(this->shell("echo begun; sleep 600"));
  ASSERT_TRUE(running);
  this->untilItSays(*running, "begun\n");
  this->nested_ = false;
  EXPECT_EQ(this->open(save).error().code, Code::kConflict);
  running->exec->cancel();
  EXPECT_EQ(this->finish(*running).end, model::End::kCancelled);
  running->exec.reset();
  auto saving = this->open(save);
  ASSERT_TRUE(saving) << saving.error().message;
  this->fresh_ = true;
  EXPECT_EQ(this->open(this->shell("true")).error().code, Code::kUnavailable);
}

TYPED_TEST_P(FreshSuite, TheSessionsEndIsItsEnd) {
  const auto running = this->startFresh(this->shell("echo begun; sleep 600"));
  ASSERT_TRUE(running);
  this->untilItSays(*running, "begun\n");
  EXPECT_TRUE(async::runTask(this->harness_.io(), this->session_->teardown()));
  this->runUntil([&] { return running->outcome.has_value(); });
  ASSERT_TRUE(running->outcome);
  this->session_.reset();
  EXPECT_EQ(this->harness_.left(), 0U);
}

REGISTER_TYPED_TEST_SUITE_P(FreshSuite, HasTheWorkspaceAndNothingElse,
                            LeavesFilesInTheWorkspaceAndNothingElse,
                            BringsFilesAndTakesBackWhatIsNew, ItsCodeIsGoneAfterIt,
                            AreBesideEachOther, ItsLimitsAreItsOwn,
                            ATimeoutOrCancelEndsItAndNothingElse, MayWriteWhereItsSessionMay,
                            TheWorkspaceIsNotSavedMeanwhile, TheSessionsEndIsItsEnd);

}  // namespace cloister::runtime
