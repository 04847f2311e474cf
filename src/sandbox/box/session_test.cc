// SPDX-License-Identifier: Apache-2.0
// A session's sandbox, with the real runner in it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/signal.h"
#include "async/spawn.h"
#include "base/clock.h"
#include "sandbox/host/host.h"
#include "sandbox/process_runtime.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using model::End;
using model::Outcome;
using testbed::Recorder;
using testbed::shell;

class SessionTest : public ::testing::Test {
 protected:
  // A program under way.
  struct Running {
    std::unique_ptr<Exec> exec;
    Recorder seen;
    std::optional<Result<Outcome>> outcome;
  };

  void SetUp() override {
    if (!testbed::host()) GTEST_SKIP() << testbed::host().error().message;
    runtime_ = makeProcessRuntime(io_.get_executor(), *testbed::host());
    model::Limits limits;
    limits.memory_bytes = uint64_t{64} << 20;
    auto made = async::runTask(io_, runtime_->provision(permit("", limits)));
    ASSERT_TRUE(made) << made.error().message;
    session_ = *std::move(made);
  }
  void TearDown() override {
    if (!session_) return;
    EXPECT_TRUE(async::runTask(io_, session_->teardown()));
    session_.reset();
    EXPECT_EQ(testbed::left(), 0U);
  }

  static model::SignedPermit permit(std::string execution, const model::Limits& limits) {
    model::PermitFields fields = wire::decodePermit(testbed::permit(limits).encoded).value();
    fields.session_id = "ses_test";
    fields.execution_id = std::move(execution);
    return {wire::encodePermit(fields), {}};
  }

  std::unique_ptr<Running> start(model::ExecSpec spec, Millis wall = std::chrono::seconds(30)) {
    auto running = std::make_unique<Running>();
    model::Limits limits;
    limits.wall = wall;
    limits.cpu_time = std::chrono::seconds(10);
    auto exec = async::runTask(io_, session_->open(permit("exec_test", limits), spec));
    EXPECT_TRUE(exec) << exec.error().message;
    running->exec = *std::move(exec);
    async::spawn(io_.get_executor(), [](Running& of) -> Task<void> {
      of.outcome = co_await of.exec->run(of.seen);
    }(*running));
    return running;
  }
  template <class Condition>
  void runUntil(Condition condition) {
    io_.restart();
    while (!condition() && io_.run_one() > 0) {
    }
  }
  Outcome finish(Running& running) {
    runUntil([&] { return running.outcome.has_value(); });
    EXPECT_TRUE(running.outcome && *running.outcome);
    return running.outcome->value_or(Outcome{});
  }
  std::string output(const std::string& script) {
    const auto running = start(shell(script));
    const Outcome outcome = finish(*running);
    EXPECT_EQ(outcome.end, End::kExited) << outcome.message;
    EXPECT_EQ(running->seen.err, "");
    return running->seen.out;
  }
  // Number of processes inside, except the runner and the counting shell.
  std::string others() { return output("set -- /proc/[0-9]*; echo $(($# - 2))"); }

  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Sandbox> session_;
};

TEST_F(SessionTest, KeepsFilesAndProcesses) {
  EXPECT_EQ(output("echo kept > file; sleep 1000 >/dev/null 2>&1 & echo $!").empty(), false);
  EXPECT_EQ(output("cat file"), "kept\n");
  EXPECT_EQ(others(), "1\n");
}

TEST_F(SessionTest, RunsProgramsBesideEachOther) {
  const auto one = start(shell("until [ -e go ]; do sleep 0.01; done; echo one"));
  const auto two = start(shell("echo two; touch go"));
  EXPECT_EQ(finish(*one).end, End::kExited);
  EXPECT_EQ(finish(*two).end, End::kExited);
  EXPECT_EQ(one->seen.out, "one\n");
  EXPECT_EQ(two->seen.out, "two\n");
}

TEST_F(SessionTest, ATimeoutEndsItsOwnTreeAndNothingElse) {
  const auto other = start(shell("mkfifo fifo; echo up; read -r line < fifo; echo $line"));
  runUntil([&] { return other->seen.out == "up\n"; });
  const auto late =
      start(shell("(setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 1000 & sleep 1000"),
            std::chrono::milliseconds(300));
  EXPECT_EQ(finish(*late).end, End::kTimedOut);
  if (testbed::hasGroups(*testbed::host().value())) {
    EXPECT_EQ(others(), "1\n") << "the other shell";
  }
  output("echo went on > fifo");
  EXPECT_EQ(finish(*other).end, End::kExited);
  EXPECT_EQ(other->seen.out, "up\nwent on\n");
}

TEST_F(SessionTest, ProgramAfterProgramKeepsNoDescriptors) {
  constexpr int kRuns = 400;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  output("echo first");
  const auto before = descriptors();
  auto most = before;
  for (int i = 0; i < kRuns; ++i) {
    output("echo again");
    most = std::max(most, descriptors());
  }
  EXPECT_LT(most - before, kRuns);
}

// The unpacking program starts before joining its group, so a kill may miss the program.
TEST_F(SessionTest, ARequestForFilesMayBeGivenUpAtOnce) {
  model::ExecSpec spec;
  spec.run = {{"unpack", ""}, std::chrono::seconds(30)};
  spec.for_files = true;
  spec.keep_input = true;
  for (int i = 0; i < 500; ++i) {
    const auto asked = start(spec);
    runUntil([&] { return asked->seen.started; });
    asked->exec->cancel();
    ASSERT_EQ(finish(*asked).end, End::kCancelled) << i;
  }
  EXPECT_EQ(others(), "0\n");
}

TEST_F(SessionTest, ManyTimeoutsLeaveNothing) {
  for (int i = 0; i < 20; ++i) {
    const auto late = start(shell("echo " + std::to_string(i) + "; sleep 1000 & sleep 1000"),
                            std::chrono::milliseconds(20));
    EXPECT_EQ(finish(*late).end, End::kTimedOut);
    EXPECT_TRUE(late->seen.out.empty() || late->seen.out == std::to_string(i) + "\n")
        << late->seen.out;
  }
  EXPECT_EQ(others(), "0\n");
}

TEST_F(SessionTest, TakesInputAsItComes) {
  auto spec = shell("while read -r line; do echo got $line; done; echo end");
  spec.input = "first\n";
  spec.keep_input = true;
  const auto running = start(spec);
  runUntil([&] { return running->seen.out == "got first\n"; });
  EXPECT_TRUE(async::runTask(io_, running->exec->input("second\n")));
  runUntil([&] { return running->seen.out == "got first\ngot second\n"; });
  EXPECT_TRUE(async::runTask(io_, running->exec->input("")));
  EXPECT_EQ(finish(*running).exit_code, 0);
  EXPECT_TRUE(running->seen.out.ends_with("end\n"));
  const auto late = async::runTask(io_, running->exec->input("late"));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);
}

TEST_F(SessionTest, ALotOfInputWaitsForItsReader) {
  auto spec = shell("sleep 0.1; wc -c");
  spec.keep_input = true;
  const auto running = start(spec);
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(async::runTask(io_, running->exec->input(piece)));
  EXPECT_TRUE(async::runTask(io_, running->exec->input("")));
  finish(*running);
  EXPECT_EQ(running->seen.out, std::to_string(4 << 20) + "\n");
}

TEST_F(SessionTest, PassesSignalsOn) {
  const auto running =
      start(shell("trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.01; done"));
  runUntil([&] { return running->seen.out == "up\n"; });
  EXPECT_TRUE(running->exec->signal(SIGINT));
  EXPECT_EQ(finish(*running).exit_code, 5);
  EXPECT_EQ(running->seen.out, "up\nint\n");
  EXPECT_FALSE(running->exec->signal(SIGINT));
}

TEST_F(SessionTest, CancelEndsOneOfThem) {
  const auto running = start(shell("sleep 1000 & sleep 1000"));
  runUntil([&] { return running->seen.started; });
  running->exec->cancel();
  EXPECT_EQ(finish(*running).end, End::kCancelled);
  EXPECT_EQ(others(), "0\n");
}

TEST_F(SessionTest, CancelledBeforeItStartsItNeverRuns) {
  const auto running = start(shell("touch ran; sleep 1000"));
  running->exec->cancel();
  EXPECT_EQ(finish(*running).end, End::kCancelled);
  EXPECT_EQ(others(), "0\n");
}

TEST_F(SessionTest, MemoryThatRunsOutEndsTheProgramOnly) {
  if (!testbed::hasGroups(*testbed::host().value())) GTEST_SKIP() << "no memory cgroup";
  const auto hog = start(
      testbed::command({"python3", "-c", "b = []\nwhile True: b.append(bytearray(1 << 20))"}));
  const Outcome outcome = finish(*hog);
  EXPECT_EQ(outcome.end, End::kLimit) << outcome.message;
  ASSERT_FALSE(outcome.limits.empty());
  EXPECT_EQ(outcome.limits[0].limit, model::limit_name::kMemory);
  EXPECT_EQ(output("echo alive"), "alive\n");
}

TEST_F(SessionTest, ItsFilesAndItsDirectoryAreItsOwn) {
  auto spec = shell("pwd; cat /workspace/sub/data");
  spec.files = {{"sub/data", "content"}};
  spec.cwd = "/tmp";
  const auto running = start(spec);
  EXPECT_EQ(finish(*running).exit_code, 0);
  EXPECT_EQ(running->seen.out, "/tmp\ncontent");
  spec.cwd = "/nowhere";
  const auto refused = start(spec);
  const Outcome outcome = finish(*refused);
  EXPECT_EQ(outcome.end, End::kStartFailed);
  EXPECT_TRUE(outcome.message.contains("No such file")) << outcome.message;
}

TEST_F(SessionTest, AFullPipeHoldsUpNobodyElse) {
  const auto loud = start(shell("yes | head -c 3000000; echo; echo end"));
  EXPECT_EQ(output("echo quiet"), "quiet\n");
  EXPECT_EQ(finish(*loud).exit_code, 0);
  EXPECT_EQ(loud->seen.total, 3'000'005U);
}

TEST_F(SessionTest, NoMoreThanItHasRoomFor) {
  std::vector<std::unique_ptr<Running>> all;
  for (int i = 0; i < 24; ++i)
    all.push_back(start(shell("sleep 1000")));
  auto more = async::runTask(io_, session_->open(permit("exec_test", {}), shell("true")));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kQuota);
  for (const auto& each : all) {
    each->exec->cancel();
    EXPECT_EQ(finish(*each).end, End::kCancelled);
  }
  all.clear();
  EXPECT_EQ(others(), "0\n");
}

TEST_F(SessionTest, SaysThatItDied) {
  const auto running = start(shell("sleep 1000"));
  runUntil([&] { return running->seen.started; });
  std::optional<model::SandboxEnd> reason;
  async::spawn(io_.get_executor(),
               [](Sandbox& of, std::optional<model::SandboxEnd>& into) -> Task<void> {
                 into = co_await of.died();
               }(*session_, reason));
  ::kill(testbed::childrenOf(testbed::childrenOf(::getpid()).front()).front(), SIGKILL);
  runUntil([&] { return reason.has_value(); });
  EXPECT_EQ(reason->kind, model::SandboxEnd::Kind::kRunnerLost);
  EXPECT_EQ(reason->message, "the runner died");
  EXPECT_EQ(finish(*running).end, End::kRunnerLost);
}

// A reader that stops reading until released.
class SlowRecorder : public Recorder {
 public:
  explicit SlowRecorder(const boost::asio::any_io_executor& executor) : changed_(executor) {}

  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    co_await Recorder::onOutput(stream, bytes);
    while (!going_)
      co_await changed_.wait();
  }
  void letGo() {
    going_ = true;
    changed_.notify();
  }

 private:
  bool going_ = false;
  async::Signal changed_;
};

// Its cgroup is gone by then, and its number of descriptors may be others' already.
TEST_F(SessionTest, AProgramWhoseReaderIsSlowOutlivesTheSandbox) {
  SlowRecorder seen(io_.get_executor());
  std::optional<Result<Outcome>> outcome;
  model::Limits limits;
  limits.wall = limits.cpu_time = std::chrono::seconds(30);
  auto exec = async::runTask(
      io_, session_->open(permit("exec_test", limits), shell("echo up; sleep 1000")));
  ASSERT_TRUE(exec) << exec.error().message;
  async::spawn(io_.get_executor(),
               [](Exec& of, SlowRecorder& by, std::optional<Result<Outcome>>& into) -> Task<void> {
                 into = co_await of.run(by);
               }(**exec, seen, outcome));
  runUntil([&] { return seen.out == "up\n"; });
  EXPECT_TRUE(async::runTask(io_, session_->teardown()));
  EXPECT_FALSE(outcome);
  (*exec)->cancel();
  seen.letGo();
  runUntil([&] { return outcome.has_value(); });
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_NE((*outcome)->end, End::kExited);
}

TEST_F(SessionTest, IsNotForASingleRun) {
  Recorder seen;
  const auto spec = shell("true");
  const auto outcome = async::runTask(io_, session_->exec(spec, seen));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kDenied);
}

}  // namespace
}  // namespace cloister::runtime
