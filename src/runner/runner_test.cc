// SPDX-License-Identifier: Apache-2.0
// The whole runner, as pid 1 of a jail.
#include "runner/runner.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "runner/link.h"
#include "runner/testing/jail.h"

namespace cloister::runner {
namespace {

using testing::Ended;
using testing::Frame;
using testing::Jail;
using wire::FromRunner;
using wire::ToRunner;

std::string runnerPath() {
  return base::programDir() + "/cloister-runner";
}

std::string number(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class RunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(runnerPath());
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }
  std::unique_ptr<Jail> jail_;
};

// Each sandbox maps the runner, and some receive a copy.
TEST(RunnerAlone, IsSmall) {
  EXPECT_LT(std::filesystem::file_size(runnerPath()), uintmax_t{1} << 20);
}

TEST(RunnerAlone, RefusesToRunUnlessPid1) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl(runnerPath().c_str(), "cloister-runner", nullptr);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kExitUsage);
}

TEST_F(RunnerTest, RunsAProgramAndReportsItsEnd) {
  const Ended run = jail_->shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(run.out, "out\n");
  EXPECT_EQ(run.err, "err\n");
  EXPECT_FALSE(run.signaled);
  EXPECT_EQ(run.code, 3U);
  EXPECT_EQ(run.reaped, 1U);
}

TEST_F(RunnerTest, ReportsTheSignalThatEndedIt) {
  const Ended run = jail_->shell("kill -SEGV $$");
  EXPECT_TRUE(run.signaled);
  EXPECT_EQ(run.code, static_cast<uint32_t>(SIGSEGV));
}

TEST_F(RunnerTest, LooksUpThePathOfTheEnvironmentGiven) {
  EXPECT_EQ(jail_->run({"echo", "x"}).out, "x\n");
  EXPECT_EQ(jail_->run({"no-such-program"}).start_errno, ENOENT);
  EXPECT_EQ(jail_->run({"/usr"}).start_errno, EACCES);
  EXPECT_EQ(jail_->run({""}).start_errno, ENOENT);
  EXPECT_EQ(jail_->run({"echo", "again"}).out, "again\n");
}

TEST_F(RunnerTest, StartsInTheDirectoryAsked) {
  EXPECT_EQ(jail_->shell("pwd").out, "/workspace\n");
  jail_->startProgram(1, {"pwd"}, 0, "/usr");
  EXPECT_EQ(jail_->finish(1).out, "/usr\n");
  jail_->startProgram(1, {"pwd"}, 0, "/nowhere");
  EXPECT_EQ(jail_->finish(1).start_errno, ENOENT);
}

TEST_F(RunnerTest, GivesAProgramOnlyItsThreeStreams) {
  EXPECT_EQ(jail_->shell("ls /proc/self/fd").out, "0\n1\n2\n3\n") << "3 is ls's own directory";
  EXPECT_EQ(jail_->shell("readlink /proc/self/fd/0").out, "/dev/null\n");
}

TEST_F(RunnerTest, GivesAProgramDefaultSignalsAndASessionOfItsOwn) {
  const Ended run = jail_->run({"cat", "/proc/self/status"});
  for (const char* line : {"SigBlk:\t0000000000000000\n", "SigIgn:\t0000000000000000\n"})
    EXPECT_THAT(run.out, ::testing::HasSubstr(line));
  const Ended session = jail_->shell("cut -d' ' -f5,6 /proc/$$/stat; echo $$ $$");
  EXPECT_EQ(session.out.substr(0, session.out.find('\n')),
            session.out.substr(session.out.find('\n') + 1,
                               session.out.size() - session.out.find('\n') - 2));
}

TEST_F(RunnerTest, KeepsItsOwnMemoryAndFilesToItself) {
  const Ended run = jail_->shell(
      "cat /proc/1/mem; cat /proc/1/environ; ls /proc/1/fd; readlink /proc/1/exe; "
      "kill -KILL 1; kill -TERM 1; kill -STOP 1; echo alive");
  EXPECT_EQ(run.out, "alive\n");
  EXPECT_EQ(jail_->run({"echo", "still"}).out, "still\n");
}

TEST_F(RunnerTest, FeedsStdinWithinItsWindow) {
  jail_->startProgram(1, {"sha256sum"}, wire::kStartStdin | wire::kStartKillRest);
  const std::string piece(65'536, 'x');
  uint64_t ahead = 0;
  for (int i = 0; i < 64; ++i) {
    while (ahead + piece.size() > wire::kStdinWindow) {
      const auto frame = jail_->next();
      ASSERT_TRUE(frame) << frame.error().message;
      if (frame->type == FromRunner::kStdinTaken) ahead -= wire::Reader(frame->payload).u32();
    }
    jail_->send(ToRunner::kStdin, 1, piece);
    ahead += piece.size();
  }
  jail_->send(ToRunner::kStdin, 1);
  const Ended run = jail_->finish(1);
  EXPECT_EQ(run.stdin_taken, ahead);
  EXPECT_EQ(run.out, base::sha256Hex(std::string(64 * piece.size(), 'x')) + "  -\n");
}

TEST_F(RunnerTest, TakesStdinThatNobodyReads) {
  jail_->startProgram(1, {"sh", "-c", "exec <&-; echo closed; sleep 1000"}, wire::kStartStdin);
  for (Frame frame; frame.type != FromRunner::kStdout;)
    frame = jail_->next().value_or(Frame{FromRunner::kStdout, 0, ""});
  jail_->send(ToRunner::kStdin, 1, std::string(65'536, 'x'));
  const auto taken = jail_->next();
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->type, FromRunner::kStdinTaken);
  EXPECT_EQ(wire::Reader(taken->payload).u32(), 65'536U);
  jail_->send(ToRunner::kSignal, 1, number(SIGTERM));
  EXPECT_EQ(jail_->finish(1).code, static_cast<uint32_t>(SIGTERM));
}

TEST_F(RunnerTest, SignalsTheWholeGroupWhileStdinIsFull) {
  jail_->startProgram(1, {"sh", "-c", "sleep 1000 & wait"}, wire::kStartStdin);
  for (int i = 0; i < 4; ++i)
    jail_->send(ToRunner::kStdin, 1, std::string(65'536, 'x'));
  jail_->send(ToRunner::kSignal, 1, number(SIGKILL));
  const Ended run = jail_->finish(1);
  EXPECT_TRUE(run.signaled);
  EXPECT_EQ(run.code, static_cast<uint32_t>(SIGKILL));
}

TEST_F(RunnerTest, EndsWithTheProgramThoughAnotherHoldsItsOutput) {
  const Ended run = jail_->shell("(setsid sleep 1000 &) ; (sleep 1000 &); echo done");
  EXPECT_EQ(run.out, "done\n");
  EXPECT_GE(run.reaped, 3U) << "the two sleeping ones were killed and reaped";
  EXPECT_EQ(jail_->shell("set -- /proc/[0-9]*; echo $#").out, "2\n") << "runner and sh";
}

TEST_F(RunnerTest, KillsProcessesThatStoppedOrIgnoreSignals) {
  const Ended run =
      jail_->shell("trap '' TERM INT HUP; for i in 1 2 3; do sh -c 'kill -STOP $$' & done; exit 0");
  EXPECT_EQ(run.code, 0U);
  EXPECT_EQ(run.reaped, 4U);
}

TEST_F(RunnerTest, LeavesTheRestAloneUnlessAsked) {
  jail_->startProgram(1, {"sh", "-c", "sleep 1000 & echo $!"}, 0);
  const std::string pid = jail_->finish(1).out;
  EXPECT_EQ(jail_->shell("kill -0 " + pid).code, 0U);
  EXPECT_EQ(jail_->shell("kill -0 " + pid).code, 1U) << "the exec before killed the rest";
}

TEST_F(RunnerTest, WaitsForAProgramThatClosedItsStreams) {
  const Ended run = jail_->shell("exec >&- 2>&-; sleep 0.2; exit 7");
  EXPECT_EQ(run.code, 7U);
}

TEST_F(RunnerTest, SlowsAProgramDownWhenTheNodeDoesNotReadAndStillHears) {
  jail_->startProgram(1, {"yes"}, wire::kStartKillRest);
  ASSERT_EQ(jail_->next().value().type, FromRunner::kStarted);
  jail_->startProgram(2, {"yes"}, 0);  // by now the first may have filled every buffer
  jail_->send(ToRunner::kSignal, 1, number(SIGKILL));
  const Ended run = jail_->finish(1);
  EXPECT_EQ(run.code, static_cast<uint32_t>(SIGKILL));
}

// The frames before kResting, which belong to the time before.
std::string untilResting(Jail& jail) {
  std::string said;
  for (;;) {
    const auto frame = jail.next();
    if (!frame || frame->type == FromRunner::kResting) return said;
    if (frame->type == FromRunner::kStdout) said += frame->payload;
  }
}

TEST_F(RunnerTest, SaysNothingWhileItRestsAndLosesNothing) {
  jail_->startProgram(1, {"sh", "-c", "yes 0123456 | head -c 8000000"}, 0);
  jail_->send(ToRunner::kRest, 0);
  const std::string before = untilResting(*jail_);
  jail_->send(ToRunner::kGoOn, 0);
  EXPECT_EQ(jail_->next().value().type, FromRunner::kHello) << "and no output between the two";
  const std::string after = jail_->finish(1).out;
  EXPECT_EQ(before.size() + after.size(), 8'000'000U);
  EXPECT_TRUE(after.ends_with("0123456\n"));
}

TEST_F(RunnerTest, EndsWhenItIsSpokenToWhileItRests) {
  jail_->send(ToRunner::kRest, 0);
  EXPECT_EQ(untilResting(*jail_), "");
  jail_->send(ToRunner::kMark, 0);
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

TEST_F(RunnerTest, GoesOnFromNothingButARest) {
  jail_->send(ToRunner::kGoOn, 0);
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

TEST_F(RunnerTest, PassesOnAllOutputInPieces) {
  const Ended run = jail_->shell("yes 0123456789abcde | head -c 4000000; echo; echo end >&2");
  EXPECT_EQ(run.out.size(), 4'000'001U);
  EXPECT_EQ(run.err, "end\n");
}

TEST_F(RunnerTest, RunsManyAtOnceButNotMoreThanItsChannels) {
  for (uint32_t i = 1; i <= 33; ++i)
    jail_->startProgram(i, {"sleep", "1000"}, wire::kStartStdin);
  EXPECT_EQ(jail_->finish(33).start_errno, EAGAIN);
  jail_->send(ToRunner::kSignal, 32, number(SIGKILL));
  EXPECT_EQ(jail_->finish(32).code, static_cast<uint32_t>(SIGKILL));
  jail_->startProgram(34, {"echo", "room"}, 0);
  EXPECT_EQ(jail_->finish(34).out, "room\n");
}

TEST_F(RunnerTest, KillingTheRestEndsOtherChannelsToo) {
  jail_->startProgram(2, {"sleep", "1000"}, 0);
  jail_->startProgram(1, {"true"}, wire::kStartKillRest);
  const Ended other = jail_->finish(2);
  EXPECT_TRUE(other.signaled);
  EXPECT_EQ(other.code, static_cast<uint32_t>(SIGKILL));
}

TEST_F(RunnerTest, RefusesOversizedArguments) {
  const std::string piece(60'000, 'a');
  for (int i = 0; i < 80; ++i)
    jail_->send(ToRunner::kText, 1, std::string("\0\1", 2) + piece);
  jail_->send(ToRunner::kText, 1, std::string("\0\0", 2));
  jail_->send(ToRunner::kStart, 1, std::string(5, '\0'));
  EXPECT_EQ(jail_->finish(1).start_errno, E2BIG);
  EXPECT_EQ(jail_->run({"echo", "again"}).out, "again\n");
}

TEST_F(RunnerTest, JoinsArgumentsThatCameInPieces) {
  const std::string long_text(100'000, 'a');
  jail_->send(ToRunner::kText, 1, std::string("\0\0", 2) + "/usr/bin/printf");
  jail_->send(ToRunner::kText, 1, std::string("\0\0", 2) + "%s");
  jail_->send(ToRunner::kText, 1, std::string("\0\1", 2) + long_text.substr(0, 60'000));
  jail_->send(ToRunner::kText, 1, std::string("\0\0", 2) + long_text.substr(60'000));
  jail_->send(ToRunner::kStart, 1, std::string(5, '\0'));
  EXPECT_EQ(jail_->finish(1).out, long_text);
}

TEST_F(RunnerTest, EndsWithEverythingInsideWhenTheNodeHangsUp) {
  jail_->startProgram(1, {"sleep", "1000"}, 0);
  ASSERT_EQ(jail_->next().value().type, FromRunner::kStarted);
  jail_->hangUp();
  EXPECT_EQ(jail_->wait(), 0);
}

// A text of a frame, behind its length.
std::string sized(const std::string& text) {
  return number(static_cast<uint32_t>(text.size())) + text;
}

TEST_F(RunnerTest, RemovesWhatWasThereForAProgram) {
  EXPECT_EQ(
      jail_
          ->shell("cd /tmp && mkdir -p .cloister-build/a/b && echo x > .cloister-build/a/b/c\n"
                  "echo x > .cloister-program; ln -s /workspace/kept .cloister-link\n"
                  "echo x > kept; cd /workspace; echo x > .cloister-1.sh; echo x > kept")
          .code,
      0U);
  for (const char* path : {"/tmp/.cloister-build", "/tmp/.cloister-program", "/tmp/.cloister-link",
                           "/tmp/.cloister-none", "/workspace/.cloister-1.sh"})
    jail_->send(ToRunner::kRemove, 0, sized(path));
  EXPECT_EQ(jail_->shell("ls -A /tmp /workspace").out, "/tmp:\nkept\n\n/workspace:\nkept\n");
}

TEST_F(RunnerTest, WritesAndRemovesFilesOfSecrets) {
  const auto put = [&](const std::string& path, const std::string& content) {
    std::string head = sized(path);
    const uint32_t mode = 0444;
    const uint64_t size = content.size();
    std::string rest(12, '\0');
    wire::Writer w(rest.data(), rest.size());
    w.u32(mode);
    w.u64(size);
    jail_->send(ToRunner::kFile, 0, head + rest);
    if (size > 0) jail_->send(ToRunner::kFileData, 0, content);
  };
  put("/run/secrets/a/key", "first");
  put("/run/secrets/other", "");
  put("/run/secrets/a/key", "second");
  const std::string place = "cd /dev/shm/.cloister-secrets && ";
  EXPECT_EQ(jail_->shell(place + "cat a/key && stat -c %a a/key && ls -A . a").out,
            "second444\n.:\na\nother\n\na:\nkey\n");
  jail_->send(ToRunner::kRemove, 0, sized("/run/secrets/a/key"));
  EXPECT_EQ(jail_->shell(place + "ls -A . a").out, ".:\na\nother\n\na:\n");
  // A program that puts a link there sends no secret elsewhere.
  jail_->shell(place + "rm other && rmdir a && ln -s /workspace a");
  put("/run/secrets/a/key", "third");
  EXPECT_EQ(jail_->shell("ls -A /workspace").out, "");
}

// A program's code is always a regular file in the workspace.
TEST_F(RunnerTest, RemovesNothingButFilesInTheWorkspace) {
  EXPECT_EQ(jail_
                ->shell("mkdir .cloister-d; echo x > .cloister-d/kept; ln -s x .cloister-l;"
                        " mkfifo .cloister-p; echo x > .cloister-f")
                .code,
            0U);
  for (const char* name : {".cloister-d", ".cloister-l", ".cloister-p", ".cloister-f"})
    jail_->send(ToRunner::kRemove, 0, sized(std::string("/workspace/") + name));
  EXPECT_EQ(jail_->shell("ls -A . .cloister-d").out,
            ".:\n.cloister-d\n.cloister-l\n.cloister-p\n\n.cloister-d:\nkept\n");
}

// A program that fills its directory meanwhile keeps the rest; others wait no longer.
TEST_F(RunnerTest, RemovesNoMoreThanItsBound) {
  EXPECT_EQ(
      jail_
          ->shell(
              "mkdir /tmp/.cloister-build && cd /tmp/.cloister-build && seq 10010 | xargs touch")
          .code,
      0U);
  jail_->send(ToRunner::kRemove, 0, sized("/tmp/.cloister-build"));
  EXPECT_EQ(jail_->shell("ls /tmp/.cloister-build | wc -l").out, "11\n");
}

// The payload of kWritable with a single file.
std::string writable(char operations, const std::string& path) {
  return number(1) + operations + '\0' + sized(path);
}

struct Malformed {
  const char* name;
  ToRunner type;
  std::string payload;
};

class MalformedTest : public RunnerTest, public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, EndsTheRunner) {
  jail_->send(GetParam().type, 1, GetParam().payload);
  EXPECT_FALSE(jail_->next());
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

INSTANTIATE_TEST_SUITE_P(
    Frames, MalformedTest,
    ::testing::Values(Malformed{"UnknownType", static_cast<ToRunner>(99), ""},
                      Malformed{"ShortFile", ToRunner::kFile, "abc"},
                      Malformed{"SetuidFile", ToRunner::kFile,
                                number(1) + "a" + number(04755) + number(0) + number(0)},
                      Malformed{"DataWithoutFile", ToRunner::kFileData, "x"},
                      Malformed{"TextKind", ToRunner::kText, "\2"},
                      Malformed{"StartFlags", ToRunner::kStart, "\xff" + number(0)},
                      Malformed{"Signal0", ToRunner::kSignal, number(0)},
                      Malformed{"Signal65", ToRunner::kSignal, number(65)},
                      Malformed{"GlobCount", ToRunner::kCollect,
                                number(1) + number(1) + number(0) + number(1'000'000)},
                      Malformed{"WritableCount", ToRunner::kWritable, number(1'000'000)},
                      Malformed{"WritableOperation", ToRunner::kWritable, writable(8, "/tmp/x")},
                      Malformed{"WritableElsewhere", ToRunner::kWritable, writable(1, "/etc/x")},
                      Malformed{"WritableUp", ToRunner::kWritable, writable(1, "/tmp/../etc/x")},
                      Malformed{"RemoveElsewhere", ToRunner::kRemove, sized("/etc/.cloister-x")},
                      Malformed{"RemoveDeeper", ToRunner::kRemove, sized("/tmp/a/.cloister-x")},
                      Malformed{"RemoveOthers", ToRunner::kRemove, sized("/workspace/file")},
                      Malformed{"RemoveAll", ToRunner::kRemove, sized("/workspace")},
                      Malformed{"MarkWithBytes", ToRunner::kMark, "x"}),
    [](const auto& param) { return param.param.name; });

// Frames as sent, except frames whose content always differs.
std::set<std::string> framesUpTo(Jail& jail, FromRunner last) {
  std::set<std::string> frames;
  for (;;) {
    const auto frame = jail.next();
    if (!frame) return frames;
    char header[wire::kHeaderBytes];
    wire::encodeHeader(header, static_cast<uint16_t>(frame->type), frame->channel,
                       static_cast<uint32_t>(frame->payload.size()));
    frames.insert(std::string(header, sizeof header) + frame->payload);
    if (frame->type == last) return frames;
  }
}

// Starts a program before its file exists.
void startWaiting(Jail& jail, const std::string& script) {
  for (const std::string& text : {std::string("/bin/sh"), std::string("-c"), script})
    jail.send(ToRunner::kText, 1, std::string(2, '\0') + text);
  const std::string name = "main.txt";
  jail.send(ToRunner::kStart, 1,
            std::string(1, wire::kStartFifo | wire::kStartKillRest) + number(0) + number(8) + name);
}

void giveContent(Jail& jail, const std::string& content) {
  jail.file("main.txt", content);
  jail.send(ToRunner::kStdin, 1, content);
  jail.send(ToRunner::kStdin, 1);
}

TEST_F(RunnerTest, AProgramWaitsForItsFile) {
  startWaiting(*jail_, "test -p main.txt && echo waiting >&2; cat main.txt; cat");
  auto frame = jail_->next();
  for (; frame && frame->type != FromRunner::kStderr; frame = jail_->next()) {
  }
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(frame->payload, "waiting\n");
  giveContent(*jail_, "the code\n");
  const Ended run = jail_->finish(1);
  EXPECT_EQ(run.out, "the code\n") << "and nothing on stdin";
  EXPECT_EQ(run.code, 0U);
}

TEST_F(RunnerTest, AFileThatIsThereByThenIsAFile) {
  startWaiting(*jail_, "until test -f main.txt; do :; done; cat main.txt; ls -A");
  giveContent(*jail_, "the code\n");
  EXPECT_EQ(jail_->finish(1).out, "the code\nmain.txt\n");
}

TEST_F(RunnerTest, OneThatSaysItHasEndedLeavesNobodyRunning) {
  const std::string done = std::to_string(kAdoptedDone);
  startWaiting(*jail_, "cat main.txt; (while :; do sleep 1 & done) & kill -" + done +
                           " 1; while :; do sleep 1 & done");
  giveContent(*jail_, "the code\n");
  const Ended run = jail_->finish(1);
  EXPECT_EQ(run.out, "the code\n");
  EXPECT_EQ(run.code, 0U);
  EXPECT_FALSE(run.signaled);
  EXPECT_EQ(jail_->shell("echo /proc/[0-9]*").out.find("/proc/2 "), std::string::npos);
}

TEST_F(RunnerTest, AnotherSignalOfAChildHidesNobody) {
  const Ended run = jail_->shell(
      "python3 -c 'import ctypes, os, time\n"
      "if ctypes.CDLL(None).syscall(56, 0, 0, 0, 0, 0) == 0:\n"  // clone(2), without a signal
      "  time.sleep(1000)'");
  EXPECT_EQ(run.code, 0U);
  EXPECT_EQ(jail_->shell("cat /proc/[0-9]*/comm").out.find("python3"), std::string::npos);
}

TEST_F(RunnerTest, CollectsWhenTheProgramHasEnded) {
  jail_->send(ToRunner::kMark, 0);
  jail_->startProgram(1, {"/bin/sh", "-c", "read line; echo $line > made"}, wire::kStartStdin);
  jail_->send(ToRunner::kCollect, 1,
              number(4) + number(99) + number(0) + number(1) + number(4) + "made");
  jail_->send(ToRunner::kStdin, 1, "late\n");
  jail_->send(ToRunner::kStdin, 1);
  EXPECT_EQ(jail_->finish(1).code, 0U);
  const auto begin = jail_->next();
  ASSERT_TRUE(begin) << begin.error().message;
  EXPECT_EQ(begin->type, FromRunner::kFileBegin);
  const auto content = jail_->next();
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_EQ(content->payload, "late\n");
  const auto end = jail_->next();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->type, FromRunner::kCollected);
}

TEST_F(RunnerTest, AdoptsOnlyWhatIsThere) {
  jail_->send(ToRunner::kStart, 1, std::string(1, wire::kStartAdopted) + number(0));
  const auto frame = jail_->next();
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(frame->type, FromRunner::kStartFailed);
  EXPECT_EQ(frame->payload.substr(0, 4), number(ECHILD));
  EXPECT_EQ(jail_->run({"echo", "x"}).out, "x\n");
}

TEST_F(RunnerTest, SpeaksTheGoldenFrames) {
  using ::testing::Contains;
  using testing::goldenFrame;
  for (const char* name : {"file", "file_data", "mark", "writable", "text", "text_more",
                           "text_rest", "text_env", "start", "stdin", "stdin_end"})
    jail_->sendRaw(goldenFrame(std::string("to_runner.") + name));
  const auto run = framesUpTo(*jail_, FromRunner::kExited);
  for (const char* name : {"started", "stdin_taken", "stdout"})
    EXPECT_THAT(run, Contains(goldenFrame(std::string("from_runner.") + name))) << name;
  jail_->sendRaw(goldenFrame("to_runner.collect"));
  const auto collected = framesUpTo(*jail_, FromRunner::kCollected);
  EXPECT_THAT(collected, ::testing::UnorderedElementsAre(goldenFrame("from_runner.file_begin"),
                                                         goldenFrame("from_runner.file_content"),
                                                         goldenFrame("from_runner.collected")));
  jail_->sendRaw(goldenFrame("to_runner.signal"));  // too late, and so without effect
  EXPECT_EQ(jail_->shell("cat dir/in.txt; stat -c ' %a' dir/in.txt").out, "golden 640\n");
}

TEST_F(RunnerTest, RefusesFramesOverTheBoundAndOtherGenerations) {
  char header[wire::kHeaderBytes];
  wire::encodeHeader(header, 5, 1, wire::kRunnerMaxPayload + 1);
  jail_->sendRaw({header, sizeof header});
  EXPECT_FALSE(jail_->next());
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

TEST_F(RunnerTest, RefusesStdinBeyondItsWindow) {
  jail_->startProgram(1, {"sleep", "1000"}, wire::kStartStdin);
  for (int i = 0; i < 6; ++i)
    jail_->send(ToRunner::kStdin, 1, std::string(65'536, 'x'));
  while (jail_->next()) {
  }
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

}  // namespace
}  // namespace cloister::runner
