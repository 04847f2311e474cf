// SPDX-License-Identifier: Apache-2.0
// The control plane's side against a node that lies: each lie ends the connection, and everything
// on it, with kUnavailable.
#include <unistd.h>

#include <gtest/gtest.h>

#include "net/frame_connection.h"
#include "net/stream_testing.h"
#include "node/node_harness.h"

namespace cloister::runtime {
namespace {

using net::Frame;
using net::FrameConnection;
using wire::FromNode;

class HostileNodeTest : public testing::Test {
 protected:
  HostileNodeTest() {
    auto [ours, theirs] = net::unixPair(io_.get_executor());
    peer_ = std::make_shared<FrameConnection>(std::move(theirs));
    model::NodeOffer offer;
    offer.node = "liar";
    say(FromNode::kOffer, 0, wire::encodeOffer(offer));
    auto adopted = async::runTask(io_, adoptNode(std::move(ours)));
    EXPECT_TRUE(adopted);
    node_ = *std::move(adopted);
  }

  void say(FromNode type, uint32_t channel, std::string payload = {}) {
    peer_->post(static_cast<uint16_t>(type), channel, std::move(payload));
  }
  static std::string output(size_t bytes) { return "\x01" + std::string(bytes, 'x'); }
  static std::string fileBegin(std::string_view path, uint64_t size) {
    std::string payload(path.size() + 12, '\0');
    wire::Writer writer(payload.data(), payload.size());
    writer.bytes(path);
    writer.u64(size);
    return payload;
  }
  static std::string finished() {
    model::Outcome outcome;
    outcome.end = model::End::kExited;
    return wire::encodeOutcome(outcome);
  }

  // Runs `talk` on channel 1 with a program started, as far as the control plane knows.
  Result<model::Outcome> execWhile(const std::function<void()>& talk) {
    say(FromNode::kProvisioned, 1,
        wire::encodeProvisioned({"fake", "liar", "host", "sha256:0", {}}));
    auto sandbox = async::runTask(io_, node_->provision({"permit", "signature"}));
    EXPECT_TRUE(sandbox);
    if (!sandbox) return std::unexpected(sandbox.error());
    // The node may send only after a request.
    async::spawn(io_.get_executor(),
                 [](HostileNodeTest& test, std::function<void()> tell) -> Task<void> {
                   Result<Frame> frame;
                   do {
                     frame = co_await test.peer_->read(1U << 20);
                   } while (frame && frame->type != static_cast<uint16_t>(wire::ToNode::kExec));
                   tell();
                 }(*this, talk));
    auto outcome = async::runTask(io_, (*sandbox)->exec({}, seen_));
    if (outcome) tearDownAnswered(**sandbox);
    return outcome;
  }
  void tearDownAnswered(Sandbox& sandbox) {
    say(FromNode::kTornDown, 1);
    EXPECT_TRUE(async::runTask(io_, sandbox.teardown()));
  }
  void expectLost(const std::function<void()>& talk) {
    const auto outcome = execWhile(talk);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kUnavailable);
    EXPECT_NE(outcome.error().message.find("node lost"), std::string::npos);
    const auto after = async::runTask(io_, node_->provision({"permit", "signature"}));
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Code::kUnavailable);
  }

  boost::asio::io_context io_;
  std::shared_ptr<FrameConnection> peer_;
  std::unique_ptr<RemoteNode> node_;
  Collector seen_{io_.get_executor()};
};

TEST_F(HostileNodeTest, AnHonestOneIsHeard) {
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kOutput, 1, output(5));
    say(FromNode::kUsage, 1, wire::encodeUsage({}));
    say(FromNode::kFileBegin, 1, fileBegin("a", 2));
    say(FromNode::kFileData, 1, "ab");
    say(FromNode::kFileEnd, 1);
    say(FromNode::kFinished, 1, finished());
  });
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(seen_.out, "xxxxx");
  EXPECT_EQ(seen_.files.at("a"), "ab");
}

// A runner may die while sending a file, or state a wrong size.
TEST_F(HostileNodeTest, AFileThatBreaksOffIsNoLie) {
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFileBegin, 1, fileBegin("a", 100));
    say(FromNode::kFileData, 1, "ab");
    say(FromNode::kFinished, 1, finished());
  });
  ASSERT_TRUE(outcome) << outcome.error().message;
}

TEST_F(HostileNodeTest, TellsItsPoolAtAnyTime) {
  model::PoolStats stats;
  stats.kinds = {{.language = "\x1b[31m", .ready = 1'000'000}};
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFileBegin, 1, fileBegin("a", 0));
    say(FromNode::kPool, 0, wire::encodePool(stats));
    say(FromNode::kFileEnd, 1);
    say(FromNode::kFinished, 1, finished());
  });
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(node_->pool(), stats);
}

TEST_F(HostileNodeTest, OffersAnewAtAnyTime) {
  model::NodeOffer offer;
  offer.images.emplace_back().name = "data";
  size_t told = 0;
  node_->onOffer([&told] { ++told; });
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kOffer, 0, wire::encodeOffer(offer));
    say(FromNode::kFinished, 1, finished());
  });
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(told, 1U);
  EXPECT_EQ(node_->offer().images, offer.images);
}

TEST_F(HostileNodeTest, AnotherOfferOnAChannel) {
  expectLost([&] { say(FromNode::kOffer, 1, wire::encodeOffer({})); });
}

TEST_F(HostileNodeTest, AnotherOfferThatIsNone) {
  expectLost([&] { say(FromNode::kOffer, 0, wire::encodeOffer({}) + "x"); });
}

TEST_F(HostileNodeTest, APoolOnAChannel) {
  expectLost([&] { say(FromNode::kPool, 1, wire::encodePool({})); });
}

TEST_F(HostileNodeTest, APoolThatIsNone) {
  expectLost([&] { say(FromNode::kPool, 0, wire::encodePool({}) + "x"); });
}

TEST_F(HostileNodeTest, APoolOverTheBound) {
  expectLost([&] { say(FromNode::kPool, 0, std::string(wire::kMaxPool + 1, '\0')); });
}

// Times of another clock are converted to ours.
TEST_F(HostileNodeTest, TellsItsImageAtAnyTime) {
  model::ImageState state;
  state.digest = "sha256:" + std::string(64, 'a');
  state.changed_at = 50;
  state.files = 3;
  size_t told = 0;
  node_->onOffer([&told] { ++told; });
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kImage, 0, wire::encodeImage({state, 1'000'050}));
    say(FromNode::kFinished, 1, finished());
  });
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(told, 1U);
  EXPECT_EQ(node_->offer().image_digest, state.digest);
  ASSERT_TRUE(node_->image());
  EXPECT_EQ(node_->image()->files, 3U);
  EXPECT_EQ(node_->image()->changed_at, 50);
  const int64_t ours = node_->image()->changed_at + node_->image()->clock_ahead;
  EXPECT_NEAR(static_cast<double>(base::wallMicros() - ours), 1e6, 60e6);
}

TEST_F(HostileNodeTest, AnImageOnAChannel) {
  expectLost([&] { say(FromNode::kImage, 1, wire::encodeImage({})); });
}

TEST_F(HostileNodeTest, AnImageThatIsNone) {
  expectLost([&] { say(FromNode::kImage, 0, wire::encodeImage({}) + "x"); });
}

TEST_F(HostileNodeTest, AnImageWhoseDigestIsNone) {
  wire::ImageTold told;
  told.state.digest = "x";
  expectLost([&] { say(FromNode::kImage, 0, wire::encodeImage(told)); });
}

TEST_F(HostileNodeTest, AnImageOverTheBound) {
  expectLost([&] { say(FromNode::kImage, 0, std::string(wire::kMaxImage + 1, '\0')); });
}

TEST_F(HostileNodeTest, UnknownChannel) {
  expectLost([&] { say(FromNode::kOutput, 7, output(1)); });
}

TEST_F(HostileNodeTest, UnknownMessage) {
  expectLost([&] { say(static_cast<FromNode>(200), 1); });
}

TEST_F(HostileNodeTest, OutputBeforeTheStart) {
  expectLost([&] { say(FromNode::kOutput, 1, output(1)); });
  EXPECT_EQ(seen_.out, "");
}

TEST_F(HostileNodeTest, UnknownStream) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kOutput, 1, "\x03nope");
  });
  EXPECT_EQ(seen_.out + seen_.err, "");
}

TEST_F(HostileNodeTest, MoreOutputThanTheWindow) {
  // The first piece is forwarded only after the last was received; the rest is not awaited.
  seen_.delay = Millis{500};
  seen_.on_output = [this, pieces = 0]() mutable {
    if (pieces++ > 0) seen_.delay = Millis{0};
  };
  expectLost([&] {
    say(FromNode::kStarted, 1);
    for (int i = 0; i < 40; i++)
      say(FromNode::kOutput, 1, output(32'768));
  });
  EXPECT_LE(seen_.out.size(), size_t{wire::kOutputWindow});
}

TEST_F(HostileNodeTest, TwoStarts) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kStarted, 1);
  });
}

TEST_F(HostileNodeTest, AFileLargerThanItsSize) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFileBegin, 1, fileBegin("a", 2));
    say(FromNode::kFileData, 1, "abc");
  });
}

TEST_F(HostileNodeTest, AFileWithinAFile) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFileBegin, 1, fileBegin("a", 2));
    say(FromNode::kFileBegin, 1, fileBegin("b", 2));
  });
}

TEST_F(HostileNodeTest, AnEndlessPath) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFileBegin, 1, fileBegin(std::string(5000, 'a'), 2));
  });
}

TEST_F(HostileNodeTest, AMalformedResult) {
  expectLost([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFinished, 1, "garbage");
  });
}

TEST_F(HostileNodeTest, AResultAfterTheResult) {
  const auto outcome = execWhile([&] {
    say(FromNode::kStarted, 1);
    say(FromNode::kFinished, 1, finished());
    say(FromNode::kFinished, 1, finished());
  });
  EXPECT_TRUE(outcome) << "the first one had come";
  const auto after = async::runTask(io_, node_->provision({"permit", "signature"}));
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kUnavailable);
}

TEST_F(HostileNodeTest, AFaultNeverPassesForALostNode) {
  const auto outcome = execWhile([&] {
    say(FromNode::kFailed, 1, wire::encodeError({Code::kUnavailable, "says it is gone", {}}));
  });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInternal);
}

// --- a session's sandbox
// --------------------------------------------------------------------------

class HostileSessionTest : public HostileNodeTest {
 protected:
  HostileSessionTest() {
    say(FromNode::kProvisioned, 1,
        wire::encodeProvisioned({"fake", "liar", "host", "sha256:0", {}}));
    model::PermitFields fields;
    fields.session_id = "ses_1";
    auto sandbox = async::runTask(io_, node_->provision({wire::encodePermit(fields), "signature"}));
    EXPECT_TRUE(sandbox);
    session_ = *std::move(sandbox);
  }
  model::SandboxEnd died() { return async::runTask(io_, session_->died()); }

  std::unique_ptr<Sandbox> session_;
};

TEST_F(HostileSessionTest, AnHonestOneTellsItsEnd) {
  say(FromNode::kDied, 1,
      wire::encodeSandboxEnd({model::SandboxEnd::Kind::kMemory, "out of memory"}));
  const model::SandboxEnd end = died();
  EXPECT_EQ(end.kind, model::SandboxEnd::Kind::kMemory);
  EXPECT_EQ(end.message, "out of memory");
  tearDownAnswered(*session_);
}

TEST_F(HostileSessionTest, AnEndThatIsNone) {
  say(FromNode::kDied, 1, "the runner died");
  EXPECT_EQ(died().kind, model::SandboxEnd::Kind::kNodeLost);
  EXPECT_FALSE(async::runTask(io_, node_->provision({"permit", "signature"})));
}

TEST_F(HostileSessionTest, AnEndThatOnlyWeCanTell) {
  std::string lie = wire::encodeSandboxEnd({model::SandboxEnd::Kind::kMemory, "x"});
  lie[0] = static_cast<char>(model::SandboxEnd::Kind::kTornDown);
  say(FromNode::kDied, 1, std::move(lie));
  EXPECT_EQ(died().kind, model::SandboxEnd::Kind::kNodeLost);
}

TEST_F(HostileSessionTest, ItsEndIsTheEndOfTheSession) {
  peer_->close();
  const model::SandboxEnd end = died();
  EXPECT_EQ(end.kind, model::SandboxEnd::Kind::kNodeLost);
  EXPECT_NE(end.message.find("node lost"), std::string::npos);
}

TEST_F(HostileNodeTest, APingOnAChannel) {
  expectLost([&] { say(FromNode::kPing, 1); });
}

TEST_F(HostileNodeTest, APingWithAPayload) {
  expectLost([&] { say(FromNode::kPing, 0, "x"); });
}

TEST_F(HostileNodeTest, AnswersWhatWasNotAsked) {
  expectLost([&] { say(FromNode::kPong, 0); });
}

// The connection stands, but sends nothing.
class SilentNodeTest : public testing::Test {
 protected:
  void connect(net::StreamPair streams) {
    auto [ours, theirs] = std::move(streams);
    peer_ = std::make_shared<FrameConnection>(std::move(theirs));
    model::NodeOffer offer;
    offer.node = "silent";
    peer_->post(static_cast<uint16_t>(FromNode::kOffer), 0, wire::encodeOffer(offer));
    const auto told = [this](pid_t pid) { hung_ = pid; };
    auto adopted = async::runTask(io_, adoptNode(std::move(ours), {Millis(400), told}));
    EXPECT_TRUE(adopted);
    node_ = *std::move(adopted);
    async::spawn(io_.get_executor(), [](SilentNodeTest& test) -> Task<void> {
      co_await test.node_->closed();
      test.closed_ = true;
    }(*this));
  }
  // Receives requests, and answers or stays silent.
  void listen(bool answers) {
    async::spawn(io_.get_executor(), [](SilentNodeTest& test, bool replies) -> Task<void> {
      while (const auto frame = co_await test.peer_->read(1U << 20)) {
        EXPECT_EQ(frame->type, static_cast<uint16_t>(wire::ToNode::kPing));
        ++test.pings_;
        if (replies) test.peer_->post(static_cast<uint16_t>(FromNode::kPong), 0);
      }
    }(*this, answers));
  }

  boost::asio::io_context io_;
  std::shared_ptr<FrameConnection> peer_;
  std::unique_ptr<RemoteNode> node_;
  std::optional<pid_t> hung_;
  bool closed_ = false;
  int pings_ = 0;
};

TEST_F(SilentNodeTest, IsAskedAndThenLost) {
  connect(net::unixPair(io_.get_executor()));
  listen(false);
  io_.run_for(std::chrono::seconds(5));
  EXPECT_TRUE(closed_);
  EXPECT_EQ(hung_, ::getpid());
  EXPECT_GE(pings_, 3);
}

TEST_F(SilentNodeTest, MayBeOfNoKnownProcess) {
  connect(net::MemoryStream::pair(io_.get_executor()));
  io_.run_for(std::chrono::seconds(5));
  EXPECT_TRUE(closed_);
  EXPECT_EQ(hung_, 0);
}

TEST_F(SilentNodeTest, IsKeptWhileItAnswers) {
  connect(net::unixPair(io_.get_executor()));
  listen(true);
  io_.run_for(std::chrono::seconds(2));
  EXPECT_FALSE(closed_);
  EXPECT_FALSE(hung_);
  EXPECT_GE(pings_, 5);
}

TEST_F(HostileNodeTest, GarbageInsteadOfAnOffer) {
  auto [ours, theirs] = net::unixPair(io_.get_executor());
  const std::string garbage = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  theirs->write({boost::asio::buffer(garbage)}, [](net::ByteStream::Error) {});
  const auto adopted = async::runTask(io_, adoptNode(std::move(ours)));
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace cloister::runtime
