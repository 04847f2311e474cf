// SPDX-License-Identifier: Apache-2.0
// The path to a sandbox within a session's, with a broken runner there or in the session's sandbox
// that violates the runner's protocol. The other tests are in within_suite.h.
#include "sandbox/box/within.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/spawn.h"
#include "linux/message.h"
#include "sandbox/box/live.h"
#include "sandbox/box/prestart.h"
#include "sandbox/box/switchboard.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using wire::FromRunner;

class FakeGuest final : public runtime::Guest {
 public:
  std::string name() const override { return "test"; }
  SpawnRequest::What what() const override { return {}; }
  std::vector<std::string> weakened() const override { return {}; }
  model::Finding finding() const override { return {}; }
  uint32_t ready() const override { return 0; }
  std::string noNetwork() const override { return "none in tests"; }
  Nesting nesting() const override { return Nesting::kAlways; }
  void adjust(const model::Limits&, SandboxSpec&, linux::CgroupLimits&) const override {}
  Result<std::vector<Fd>> files(const SandboxSpec&, const std::string&) const override {
    return std::vector<Fd>();
  }
  uint32_t fileCount() const override { return 0; }
  void describe(const SandboxSpec&, base::json::object&) const override {}
};

class WithinTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto& host = testbed::host();
    if (!host) GTEST_SKIP() << host.error().message;
    auto ends = linux::socketPair(SOCK_STREAM);
    ASSERT_TRUE(ends);
    runner_ = std::move(ends->first);
    Live::Parts parts;
    parts.host = *host;
    parts.guest = std::make_shared<const FakeGuest>();
    parts.limits.wall = Millis{5'000};
    live_ = std::make_shared<Live>(io_.get_executor(), std::move(parts));
    live_->adopt(Fd(), std::move(ends->second));
    board_ = std::make_shared<Switchboard>(live_);
    board_->start();
  }

  static std::string frame(FromRunner type, uint32_t channel, std::string_view payload = {}) {
    std::string frame;
    addFrame(frame, static_cast<wire::ToRunner>(type), channel, payload);
    return frame;
  }

  // Sends as the session's runner. False once the reader is gone.
  bool say(const std::string& bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(runner_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }

  boost::asio::io_context io_{1};
  Fd runner_;
  std::shared_ptr<Live> live_;
  std::shared_ptr<Switchboard> board_;
  testbed::Recorder seen_;
};

// The reader has ended, and the pending output exceeds a socket's buffer.
TEST_F(WithinTest, WhatIsSaidBehindTheEndHoldsNobodyUp) {
  constexpr size_t kMuch = size_t{450} << 10;
  constexpr size_t kPiece = size_t{16} << 10;
  constexpr uint32_t kWay = 1;  // the first line
  const std::string exited(1 + 4 + 3 * 8 + 4 + 2 * 8, '\0');
  std::thread runner([&] {
    const std::string inner = frame(FromRunner::kHello, 0, std::string("\1\0\0\0", 4)) +
                              frame(FromRunner::kStarted, kProgram) +
                              frame(FromRunner::kExited, kProgram, exited);
    say(frame(FromRunner::kStarted, kWay) + frame(FromRunner::kStdout, kWay, inner));
    const std::string more = frame(FromRunner::kStdout, kWay, std::string(kPiece, 'x'));
    for (size_t said = 0; said < kMuch && say(more); said += kPiece)
      std::this_thread::sleep_for(Millis{3});
    say(frame(FromRunner::kExited, kWay, exited));
  });
  const auto exec = makeExecApart(withinOf(live_, board_, {.limits = live_->limits()}),
                                  testbed::shell("true"), nullptr);
  std::optional<Result<model::Outcome>> outcome;
  async::spawn(io_.get_executor(), [](Exec& of, testbed::Recorder& seen, auto& out) -> Task<void> {
    out = co_await of.run(seen);
  }(*exec, seen_, outcome));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  while (!outcome && std::chrono::steady_clock::now() < until)
    io_.run_one_for(Millis{100});
  ::shutdown(runner_.get(), SHUT_RDWR);
  runner.join();
  ASSERT_TRUE(outcome) << "it waits for a way that nobody reads";
  ASSERT_TRUE(*outcome) << outcome->error().message;
  EXPECT_EQ((*outcome)->end, model::End::kExited) << (*outcome)->message;
  EXPECT_FALSE(board_->ended());
}

}  // namespace
}  // namespace cloister::runtime
