// SPDX-License-Identifier: Apache-2.0
// Messages of a broken runner, and the resulting ends of its program.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "linux/message.h"
#include "sandbox/box/live.h"
#include "sandbox/box/prestart.h"
#include "sandbox/box/run.h"
#include "sandbox/box/switchboard.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using model::End;
using wire::FromRunner;

class BrokenRunnerTest : public testing::Test {
 protected:
  BrokenRunnerTest() {
    auto ends = linux::socketPair(SOCK_STREAM);
    EXPECT_TRUE(ends);
    runner_ = std::move(ends->first);
    live_ = std::make_shared<Live>(io_.get_executor(), Live::Parts{});
    live_->adopt(Fd(), std::move(ends->second));
  }

  void say(FromRunner type, uint32_t channel, std::string_view payload = {}) {
    std::string frame;
    addFrame(frame, static_cast<wire::ToRunner>(type), channel, payload);
    ASSERT_EQ(::write(runner_.get(), frame.data(), frame.size()),
              static_cast<ssize_t>(frame.size()));
  }

  static std::string errorSaying(std::string_view what) {
    std::string payload(8 + what.size(), '\0');
    wire::Writer w(payload.data(), payload.size());
    w.u32(ENOENT);
    w.bytes(what);
    return payload;
  }

  static std::string fileNamed(std::string_view path, uint64_t size) {
    std::string payload(12 + path.size(), '\0');
    wire::Writer w(payload.data(), payload.size());
    w.bytes(path);
    w.u64(size);
    return payload;
  }

  void exits() {
    say(FromRunner::kStarted, kProgram);
    say(FromRunner::kExited, kProgram, std::string(1 + 4 + 3 * 8 + 4 + 2 * 8, '\0'));
  }

  // Runs a program whose artifacts are requested, after the runner has sent its last frame.
  model::Outcome run() {
    ::shutdown(runner_.get(), SHUT_WR);
    model::ExecSpec spec = testbed::shell("true");
    spec.artifacts = {.globs = {"**"}, .max_files = 10, .max_bytes = 1000};
    const auto run = std::make_shared<runtime::Run>(live_, spec, seen_, [] {});
    auto outcome = async::runTask(io_, run->go());
    EXPECT_TRUE(outcome);
    return *outcome;
  }

  std::string endOf(const std::shared_ptr<Switchboard>& board) {
    return async::runTask(io_, [](std::shared_ptr<Switchboard> of) -> Task<std::string> {
      co_await of->waitEnd();
      co_return of->why().message;
    }(board));
  }

  boost::asio::io_context io_{1};
  Fd runner_;
  std::shared_ptr<Live> live_;
  testbed::Recorder seen_;
};

// Clients receive the runner's messages with bounded size and safe characters.
TEST_F(BrokenRunnerTest, ItsWordsAreCutAndMadeSafe) {
  say(FromRunner::kStartFailed, kProgram, errorSaying("\x1b[31m\xff" + std::string(60'000, 'x')));
  const model::Outcome outcome = run();
  EXPECT_EQ(outcome.end, End::kStartFailed);
  EXPECT_TRUE(outcome.message.starts_with("\\x1b[31m\\xff")) << outcome.message.substr(0, 40);
  EXPECT_LT(outcome.message.size(), 1000U);
}

TEST_F(BrokenRunnerTest, AFileWithoutANameIsNotPassedOn) {
  exits();
  say(FromRunner::kFileBegin, kProgram, fileNamed("", 0));
  const model::Outcome outcome = run();
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_TRUE(outcome.artifacts_truncated);
  EXPECT_TRUE(seen_.files.empty());
}

TEST_F(BrokenRunnerTest, AProgramThatExitedHasWhateverFilesBreakOff) {
  exits();
  say(FromRunner::kFileBegin, kProgram, fileNamed("half", 100));
  say(FromRunner::kFileContent, kProgram, "half");
  const model::Outcome outcome = run();
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_TRUE(outcome.artifacts_truncated);
}

// The queue stays bounded while the runner does not read: each signal number is kept once, and only
// the last size.
TEST_F(BrokenRunnerTest, WhatItIsToBeToldDoesNotPileUp) {
  constexpr uint16_t kLast = 20'000;
  const auto board = std::make_shared<Switchboard>(live_);
  const auto line = board->open();
  for (uint16_t columns = 1; columns <= kLast; ++columns) {
    board->resize(line, {.cols = columns, .rows = 24});
    board->signal(line, SIGUSR1);
    io_.poll();
  }
  const std::string last("\x20\x4e\x18\0", 4);
  std::string told;
  for (bool all = false; !all; all = told.contains(last)) {
    char bytes[65'536];
    const ssize_t n = ::recv(runner_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    told.append(bytes, static_cast<size_t>(std::max<ssize_t>(n, 0)));
    io_.restart();
    io_.poll();
    ASSERT_LT(told.size(), 400'000U) << "as much as the socket holds";
    ASSERT_TRUE(n > 0 || told.contains(last));
  }
}

// Nobody would read such output or acknowledge it.
TEST_F(BrokenRunnerTest, OutputOfNoProgramEndsASession) {
  const auto board = std::make_shared<Switchboard>(live_);
  const auto line = board->open();
  const uint32_t number = line->number;
  board->close(line);
  board->start();
  say(FromRunner::kScratch, number, std::string(32, '\0'));  // a late report, which is ignored
  say(FromRunner::kStdout, number, "x");
  EXPECT_EQ(endOf(board), "the runner broke its protocol: output of no program");
  EXPECT_EQ(board->why().kind, model::SandboxEnd::Kind::kRunnerLost);
}

// Answers of a session's runner to kRest, and why each ends the session.
class RestingTest : public BrokenRunnerTest {
 protected:
  std::string whenAsked(const std::vector<std::pair<FromRunner, uint32_t>>& frames) {
    const auto board = std::make_shared<Switchboard>(live_);
    board->start();
    const auto line = board->open();
    async::spawn(io_.get_executor(), [](std::shared_ptr<Switchboard> of) -> Task<void> {
      if (co_await of->rest()) std::ignore = co_await of->goOn();
    }(board));
    io_.poll();
    for (const auto& [type, channel] : frames)
      say(type, channel, type == FromRunner::kStdout ? "x" : "");
    ::shutdown(runner_.get(), SHUT_WR);
    return endOf(board);
  }
};

TEST_F(RestingTest, NobodyAsked) {
  const auto board = std::make_shared<Switchboard>(live_);
  board->start();
  say(FromRunner::kResting, 0);
  EXPECT_EQ(endOf(board), "the runner broke its protocol: unknown channel");
}

TEST_F(RestingTest, ItSpeaksMeanwhile) {
  EXPECT_EQ(whenAsked({{FromRunner::kResting, 0}, {FromRunner::kStdout, 1}}),
            "the runner broke its protocol: it rests");
}

TEST_F(RestingTest, ItSaysSoTwice) {
  EXPECT_EQ(whenAsked({{FromRunner::kResting, 0}, {FromRunner::kResting, 0}}),
            "the runner broke its protocol: unknown channel");
}

TEST_F(RestingTest, ItGoesOnWithoutAWord) {
  EXPECT_EQ(whenAsked({{FromRunner::kResting, 0}}), "the runner died");
}

TEST_F(RestingTest, ItEndsInstead) {
  EXPECT_EQ(whenAsked({}), "the runner died");
}

}  // namespace
}  // namespace cloister::runtime
