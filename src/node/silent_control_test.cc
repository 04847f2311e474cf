// SPDX-License-Identifier: Apache-2.0
// A control plane whose connection stands, but which sends nothing: the node gives it up.
#include <array>

#include <gtest/gtest.h>

#include "net/stream_testing.h"
#include "node/node_harness.h"

namespace cloister::node {
namespace {

using net::Frame;
using net::FrameConnection;
using runtime::Task;
using wire::FromNode;
using wire::ToNode;

constexpr Millis kSilence{200};

class SilentControlTest : public testing::Test {
 protected:
  SilentControlTest() { node_.config.control_silence = kSilence; }

  // A control plane with a sandbox. Its other actions are those of the test.
  void connect(net::StreamPair streams) {
    control_ = std::make_shared<FrameConnection>(std::move(streams.first));
    node_.serve(std::move(streams.second));
    say(ToNode::kProvision, 1, permit());
  }
  void connect() { connect(net::unixPair(node_.io.get_executor())); }
  void say(ToNode type, uint32_t channel, std::string payload = {}) {
    control_->post(static_cast<uint16_t>(type), channel, std::move(payload));
  }
  std::string permit() {
    model::Limits limits;
    model::settle(limits);
    const int64_t now = base::wallMicros();
    return wire::encodeSignedPermit(
        node_.sign({.id = base::newId("permit"),
                    .execution_id = base::newId("exec"),
                    .session_id = "",
                    .tenant = "t",
                    .policy_id = "p",
                    .runtime = "fake",
                    .image = "host",
                    .network_tier = "none",
                    .limits = limits,
                    .spec_sha256 = base::sha256Hex(wire::encodeExecSpec(program_)),
                    .prestart = "",
                    .not_before = now,
                    .expires = now + 30'000'000}));
  }
  // Reads to the end of the connection.
  void listen(bool answers) {
    async::spawn(node_.io.get_executor(), [](SilentControlTest& test, bool replies) -> Task<void> {
      while (const auto frame = co_await test.control_->read(wire::kNodeMaxPayload)) {
        test.provisioned_ |= is(*frame, FromNode::kProvisioned);
        if (!is(*frame, FromNode::kPing)) continue;
        ++test.pings_;
        if (replies) test.say(ToNode::kPong, 0);
      }
      test.ended_ = true;
    }(*this, answers));
  }
  // Reads up to a frame of this type.
  void hear(FromNode type) {
    auto frame = async::runTask(node_.io, control_->read(wire::kNodeMaxPayload));
    while (frame && !is(*frame, type))
      frame = async::runTask(node_.io, control_->read(wire::kNodeMaxPayload));
    ASSERT_TRUE(frame) << frame.error().message;
  }
  static bool is(const Frame& frame, FromNode type) {
    return frame.type == static_cast<uint16_t>(type);
  }
  template <class Condition>
  bool until(Condition done) {
    const auto end = base::monotonicNow() + Millis(20'000);
    node_.io.restart();
    while (!done() && base::monotonicNow() < end)
      node_.io.run_one_for(Millis(50));
    return done();
  }
  void runFor(Millis time) {
    node_.io.restart();
    node_.io.run_for(time);
  }

  NodeFixture node_{2};
  model::ExecSpec program_ = [] {
    model::ExecSpec made;
    made.run = {{"flood", "100000000"}, Millis{30'000}};
    return made;
  }();
  std::shared_ptr<FrameConnection> control_;
  bool provisioned_ = false;
  bool ended_ = false;
  int pings_ = 0;
};

TEST_F(SilentControlTest, IsAskedAndThenLosesItsSandboxes) {
  connect();
  listen(false);
  EXPECT_TRUE(until([&] { return ended_; }));
  EXPECT_TRUE(provisioned_);
  EXPECT_GE(pings_, 3);
  EXPECT_TRUE(until([&] { return node_.fake.live() == 0; }));
}

TEST_F(SilentControlTest, OverAnotherTransportTheSame) {
  connect(net::MemoryStream::pair(node_.io.get_executor()));
  listen(false);
  EXPECT_TRUE(until([&] { return ended_ && node_.fake.live() == 0; }));
  EXPECT_GE(pings_, 3);
}

// Its program's output fills the stream, so the node cannot even write its pings.
TEST_F(SilentControlTest, MayStopReading) {
  connect();
  hear(FromNode::kProvisioned);
  say(ToNode::kExec, 1, wire::encodeExecSpec(program_));
  hear(FromNode::kStarted);
  EXPECT_EQ(node_.fake.live(), 1U);
  EXPECT_TRUE(until([&] { return node_.fake.live() == 0; }));
}

TEST_F(SilentControlTest, IsKeptWhileItAnswers) {
  connect();
  listen(true);
  runFor(kSilence * 6);
  EXPECT_FALSE(ended_);
  EXPECT_GE(pings_, 3);
  EXPECT_EQ(node_.fake.live(), 1U);
}

TEST_F(SilentControlTest, TheRemoteRuntimeAnswersByItself) {
  const auto remote = node_.connectInMemory();
  bool closed = false;
  async::spawn(node_.io.get_executor(), [](runtime::RemoteNode& of, bool& into) -> Task<void> {
    co_await of.closed();
    into = true;
  }(*remote, closed));
  runFor(kSilence * 6);
  EXPECT_FALSE(closed);
}

TEST_F(SilentControlTest, ALargeFrameThatArrivesSlowlyIsNoSilence) {
  auto [ours, theirs] = net::unixPair(node_.io.get_executor());
  node_.serve(std::move(theirs));
  async::spawn(node_.io.get_executor(), [](net::ByteStream& stream, bool& ended) -> Task<void> {
    std::array<char, 4096> bytes{};
    while (!(co_await stream.read(boost::asio::buffer(bytes))).first) {
    }
    ended = true;
  }(*ours, ended_));
  std::string piece(wire::kHeaderBytes, '\0');
  wire::encodeHeader(piece.data(), static_cast<uint16_t>(ToNode::kProvision), 1, 1U << 20);
  for (int i = 0; i < 20; ++i) {
    ours->write({boost::asio::buffer(piece)}, [](net::ByteStream::Error) {});
    runFor(kSilence / 4);
    ASSERT_FALSE(ended_) << "after " << i << " pieces";
    piece.assign(100, 'x');
  }
  EXPECT_TRUE(until([&] { return ended_; })) << "a frame that stops to arrive is silence";
}

TEST_F(SilentControlTest, MustNotAnswerWhatWasNotAsked) {
  connect();
  listen(false);
  say(ToNode::kPong, 0);
  EXPECT_TRUE(until([&] { return ended_; }));
  EXPECT_EQ(pings_, 0);
}

TEST_F(SilentControlTest, MustAnswerWithNothingMore) {
  connect();
  listen(false);
  EXPECT_TRUE(until([&] { return pings_ == 1; }));
  say(ToNode::kPong, 0, "x");
  EXPECT_TRUE(until([&] { return ended_; }));
  EXPECT_LT(pings_, 3);
}

}  // namespace
}  // namespace cloister::node
