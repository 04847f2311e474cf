// SPDX-License-Identifier: Apache-2.0
// Tests the frames of a runner's socket, and which frames are accepted from which sender.
#include "sandbox/box/runner_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "linux/message.h"

namespace cloister::runtime {
namespace {

using wire::FromRunner;

class RunnerChannelTest : public testing::Test {
 protected:
  RunnerChannelTest() {
    auto ends = linux::socketPair(SOCK_STREAM);
    EXPECT_TRUE(ends);
    hostile_ = std::move(ends->first);
    channel_.emplace(io_.get_executor(), std::move(ends->second));
  }

  void send(FromRunner type, uint32_t channel, std::string_view payload = {}) {
    std::string frame;
    addFrame(frame, static_cast<wire::ToRunner>(type), channel, payload);
    ASSERT_EQ(::write(hostile_.get(), frame.data(), frame.size()),
              static_cast<ssize_t>(frame.size()));
  }

  void sendCounts(uint64_t peak, uint64_t killed, uint64_t refused) {
    char payload[3 * sizeof(uint64_t)];
    wire::Writer w(payload, sizeof payload);
    w.u64(peak);
    w.u64(killed);
    w.u64(refused);
    send(FromRunner::kCounts, 0, w.view());
  }

  Result<RunnerFrame> read() { return async::runTask(io_, channel_->read()); }

  boost::asio::io_context io_{1};
  Fd hostile_;
  std::optional<RunnerChannel> channel_;
  Counts counts_;
};

TEST_F(RunnerChannelTest, CountsAreKeptAndNotGivenOut) {
  channel_->takeCounts(counts_);
  sendCounts(4096, 0, 0);
  send(FromRunner::kStarted, 2);
  sendCounts(8192, 1, 3);
  send(FromRunner::kScratch, 2);
  EXPECT_EQ(read()->type, FromRunner::kStarted);
  EXPECT_EQ(counts_.memory_peak, 4096U);
  EXPECT_EQ(read()->type, FromRunner::kScratch);
  EXPECT_EQ(counts_.memory_peak, 8192U);
  EXPECT_EQ(counts_.killed, 1U);
  EXPECT_EQ(counts_.refused, 3U);
}

TEST_F(RunnerChannelTest, CountsThatGoDownBreakTheProtocol) {
  channel_->takeCounts(counts_);
  sendCounts(4096, 2, 0);
  sendCounts(4096, 1, 0);
  const auto frame = read();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::kInvalid);
  EXPECT_EQ(counts_.killed, 2U);
}

TEST_F(RunnerChannelTest, CountsOfTheWrongSizeBreakTheProtocol) {
  channel_->takeCounts(counts_);
  send(FromRunner::kCounts, 0, "12345678");
  EXPECT_EQ(read().error().code, Code::kInvalid);
}

TEST_F(RunnerChannelTest, CountsAreTakenFromNobodyElse) {
  sendCounts(4096, 1, 1);
  send(FromRunner::kStarted, 2);
  EXPECT_EQ(read().error().code, Code::kInvalid);
}

TEST_F(RunnerChannelTest, FramesComeWholeHoweverTheyAreSent) {
  std::string frame;
  addFrame(frame, static_cast<wire::ToRunner>(FromRunner::kStdout), 2, "output");
  const auto before = static_cast<size_t>(wire::kHeaderBytes + 2);
  ASSERT_EQ(::write(hostile_.get(), frame.data(), before), static_cast<ssize_t>(before));
  Result<RunnerFrame> got = fail(Code::kInternal, "not yet");
  boost::asio::co_spawn(
      io_, channel_->read(),
      [&](const std::exception_ptr&, Result<RunnerFrame> read) { got = std::move(read); });
  io_.poll();
  EXPECT_FALSE(got);
  const std::string_view rest = std::string_view(frame).substr(before);
  ASSERT_EQ(::write(hostile_.get(), rest.data(), rest.size()), static_cast<ssize_t>(rest.size()));
  io_.restart();
  io_.run();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->payload, "output");
}

TEST_F(RunnerChannelTest, AFrameTooLongEndsTheConnection) {
  char header[wire::kHeaderBytes];
  wire::encodeHeader(header, static_cast<uint16_t>(FromRunner::kStdout), 2,
                     wire::kRunnerMaxPayload + 1);
  ASSERT_EQ(::write(hostile_.get(), header, sizeof header), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(read().error().code, Code::kInvalid);
}

}  // namespace
}  // namespace cloister::runtime
