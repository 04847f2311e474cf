// SPDX-License-Identifier: Apache-2.0
// The node from the view of its control plane, well-behaved and not.
#include <gtest/gtest.h>

#include "base/file.h"
#include "net/frame_connection.h"
#include "net/unix_stream.h"
#include "node/node_harness.h"
#include "runtime/session_suite.h"

namespace cloister::runtime {
namespace {
using node::InMemoryHarness;
using node::RemoteHarness;
INSTANTIATE_TYPED_TEST_SUITE_P(Remote, RuntimeSuite, RemoteHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Remote, SessionSuite, RemoteHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(InMemory, RuntimeSuite, InMemoryHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(InMemory, SessionSuite, InMemoryHarness);
}  // namespace
}  // namespace cloister::runtime

namespace cloister::node {
namespace {

using net::Frame;
using net::FrameConnection;
using runtime::Collector;
using runtime::Task;
using wire::FromNode;
using wire::ToNode;

class ServerTest : public testing::Test {
 protected:
  model::PermitFields fields(const model::ExecSpec& spec) {
    model::Limits limits;
    model::settle(limits);
    const int64_t now = base::wallMicros();
    return {.id = base::newId("permit"),
            .execution_id = base::newId("exec"),
            .session_id = "",
            .tenant = "t",
            .policy_id = "p",
            .runtime = "fake",
            .image = "host",
            .network_tier = "none",
            .limits = limits,
            .spec_sha256 = base::sha256Hex(wire::encodeExecSpec(spec)),
            .prestart = "",
            .not_before = now,
            .expires = now + 30'000'000};
  }
  static model::ExecSpec spec(std::vector<std::string> argv) {
    model::ExecSpec made;
    made.run = {std::move(argv), Millis{30'000}};
    return made;
  }
  auto provision(runtime::Runtime& runtime, const model::ExecSpec& of) {
    return async::runTask(node_.io, runtime.provision(node_.sign(fields(of))));
  }

  // A control plane that sends arbitrary messages.
  std::shared_ptr<FrameConnection> raw() {
    auto stream = async::runTask(node_.io, net::connectUnix(node_.socket()));
    EXPECT_TRUE(stream) << stream.error().message;
    auto connection = std::make_shared<FrameConnection>(*std::move(stream));
    const auto offer = async::runTask(node_.io, connection->read(1U << 20));
    EXPECT_TRUE(offer && offer->type == static_cast<uint16_t>(FromNode::kOffer));
    return connection;
  }
  static void say(FrameConnection& connection, ToNode type, uint32_t channel,
                  std::string payload = {}) {
    connection.post(static_cast<uint16_t>(type), channel, std::move(payload));
  }
  Result<Frame> hear(FrameConnection& connection) {
    return async::runTask(node_.io, connection.read(wire::kNodeMaxPayload));
  }
  void expectHears(FrameConnection& connection, FromNode type) {
    const auto frame = hear(connection);
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(frame->type, static_cast<uint16_t>(type));
  }
  void expectEnded(FrameConnection& connection) {
    auto frame = hear(connection);
    while (frame)
      frame = hear(connection);
    EXPECT_EQ(frame.error().code, Code::kUnavailable);
  }
  std::string permitFor(const model::ExecSpec& of) {
    return wire::encodeSignedPermit(node_.sign(fields(of)));
  }

  // Makes a session's sandbox on channel 1.
  std::shared_ptr<FrameConnection> withSession() {
    auto connection = raw();
    model::PermitFields permit = fields({});
    permit.session_id = session_;
    say(*connection, ToNode::kProvision, 1, wire::encodeSignedPermit(node_.sign(permit)));
    expectHears(*connection, FromNode::kProvisioned);
    return connection;
  }
  // The opening message of a program in the session.
  std::string opening(const model::ExecSpec& named, const model::ExecSpec& sent) {
    model::PermitFields permit = fields(named);
    permit.session_id = session_;
    return wire::encodeOpen({1, node_.sign(permit), wire::encodeExecSpec(sent)});
  }

  NodeFixture node_{2};
  const std::string session_ = base::newId("ses");
};

TEST_F(ServerTest, OffersWhatItHas) {
  const auto remote = node_.connect();
  EXPECT_EQ(remote->offer().node, "test-node");
  EXPECT_EQ(remote->offer().max_sandboxes, 2U);
}

TEST_F(ServerTest, TellsWhatItKeepsReady) {
  const auto remote = node_.connect();
  EXPECT_EQ(remote->pool(), std::nullopt) << "the fake keeps none";
  model::PoolStats stats;
  stats.kinds = {{.language = "python", .ready = 2, .wanted = 2}};
  for (uint64_t ready = 1; ready <= 2; ++ready) {
    stats.served[0] = ready;
    node_.fake.keepReady(stats);
    EXPECT_TRUE(node_.runUntil([&] { return remote->pool() == stats; }));
  }
}

TEST_F(ServerTest, TellsTheSameOnce) {
  model::PoolStats stats;
  stats.copies = 1;
  node_.fake.keepReady(stats);
  const auto connection = raw();
  expectHears(*connection, FromNode::kPool);
  boost::asio::steady_timer later(node_.io, std::chrono::milliseconds(1500));
  later.async_wait([&](const boost::system::error_code&) {
    stats.copies = 2;
    node_.fake.keepReady(stats);
  });
  const auto frame = hear(*connection);
  ASSERT_TRUE(frame);
  EXPECT_EQ(wire::decodePool(frame->payload), stats) << "the ticks before had nothing new";
}

TEST_F(ServerTest, TheNextControlPlaneDoesNotWaitForAStartThatHangs) {
  node_.fake.holdProvisions(true);
  const auto first = raw();
  say(*first, ToNode::kProvision, 1, permitFor(spec({"echo", "x"})));
  say(*first, ToNode::kPing, 0);
  expectHears(*first, FromNode::kPong);
  first->close();
  std::unique_ptr<runtime::RemoteNode> second;
  for (int i = 0; i < 100 && !second; ++i) {
    boost::asio::steady_timer pause(node_.io, std::chrono::milliseconds(50));
    async::runTask(node_.io, [](boost::asio::steady_timer& until) -> Task<bool> {
      co_await until.async_wait(boost::asio::use_awaitable);
      co_return true;
    }(pause));
    auto connected = async::runTask(node_.io, runtime::connectNode(node_.socket()));
    if (connected) second = *std::move(connected);
  }
  ASSERT_TRUE(second) << "it was refused for five seconds";
  EXPECT_EQ(second->offer().max_sandboxes, 1U) << "the other place is not free yet";
  node_.fake.holdProvisions(false);
  EXPECT_TRUE(node_.runUntil([&] { return second->offer().max_sandboxes == 2; }));
  EXPECT_TRUE(provision(*second, spec({"echo", "x"})));
}

TEST_F(ServerTest, RefusesASecondControlPlane) {
  const auto first = node_.connect();
  const auto second = async::runTask(node_.io, runtime::connectNode(node_.socket()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  const auto of = spec({"echo", "x"});
  EXPECT_TRUE(provision(*first, of)) << "the first one is not disturbed";
}

TEST_F(ServerTest, RunsOnlyThePermittedSpecAndOnlyOnce) {
  const auto remote = node_.connect();
  const auto permitted = spec({"echo", "fine"});
  const auto sandbox = *provision(*remote, permitted);
  Collector seen(node_.io.get_executor());
  const auto other = async::runTask(node_.io, sandbox->exec(spec({"echo", "other"}), seen));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kDenied);
  EXPECT_EQ(seen.started, 0);
  const auto again = async::runTask(node_.io, sandbox->exec(permitted, seen));
  ASSERT_FALSE(again) << "a permit is for one exec, even a refused one";
  EXPECT_EQ(seen.started, 0);
}

TEST_F(ServerTest, RefusesAPermitTwice) {
  const auto remote = node_.connect();
  const auto permit = node_.sign(fields(spec({"echo", "x"})));
  const auto first = async::runTask(node_.io, remote->provision(permit));
  EXPECT_TRUE(first);
  const auto second = async::runTask(node_.io, remote->provision(permit));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kDenied);
  EXPECT_EQ(node_.fake.provisioned().size(), 1U);
}

TEST_F(ServerTest, BoundsTheNumberOfSandboxes) {
  const auto remote = node_.connect();
  const auto of = spec({"echo", "x"});
  auto one = *provision(*remote, of);
  auto two = *provision(*remote, of);
  const auto three = provision(*remote, of);
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().code, Code::kQuota);
  EXPECT_TRUE(async::runTask(node_.io, one->teardown()));
  EXPECT_TRUE(provision(*remote, of));
}

TEST_F(ServerTest, ADroppedSandboxIsTornDown) {
  const auto remote = node_.connect();
  auto sandbox = *provision(*remote, spec({"hold"}));
  EXPECT_EQ(node_.fake.live(), 1U);
  sandbox.reset();
  EXPECT_TRUE(node_.runUntil([&] { return node_.fake.live() == 0; }));
}

TEST_F(ServerTest, TheEndOfTheConnectionEndsEverything) {
  auto remote = node_.connect();
  const auto of = spec({"hold"});
  auto sandbox = *provision(*remote, of);
  Collector seen(node_.io.get_executor());
  std::optional<Result<model::Outcome>> outcome;
  async::spawn(node_.io.get_executor(),
               [](auto& box, auto& what, auto& into, auto& out) -> Task<void> {
                 out = co_await box->exec(what, into);
               }(sandbox, of, seen, outcome));
  ASSERT_TRUE(node_.runUntil([&] { return seen.started == 1; }));
  remote.reset();
  ASSERT_TRUE(node_.runUntil([&] { return outcome && node_.fake.live() == 0; }));
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().code, Code::kUnavailable);
  EXPECT_TRUE(async::runTask(node_.io, sandbox->teardown())) << "nothing is left to be torn down";
  const auto again = node_.connect();
  EXPECT_TRUE(again) << "and the next control plane is welcome";
}

TEST_F(ServerTest, AStalledControlPlaneStallsOnlyItsProgram) {
  const auto connection = raw();
  const auto flood = spec({"flood", "100000000"});
  say(*connection, ToNode::kProvision, 1, permitFor(flood));
  expectHears(*connection, FromNode::kProvisioned);
  say(*connection, ToNode::kExec, 1, wire::encodeExecSpec(flood));
  expectHears(*connection, FromNode::kStarted);
  uint64_t got = 0;
  while (got + wire::windowCost(16'385) <= wire::kOutputWindow) {
    const auto frame = hear(*connection);
    ASSERT_TRUE(frame && frame->type == static_cast<uint16_t>(FromNode::kOutput));
    got += wire::windowCost(frame->payload.size());
  }
  // The window is full: the next message belongs to another sandbox.
  const auto echo = spec({"echo", "x"});
  say(*connection, ToNode::kProvision, 2, permitFor(echo));
  const auto next = hear(*connection);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->type, static_cast<uint16_t>(FromNode::kProvisioned));
  EXPECT_EQ(next->channel, 2U);
  // After acknowledgement the output continues.
  std::string units(4, '\0');
  wire::Writer(units.data(), units.size()).u32(static_cast<uint32_t>(got));
  say(*connection, ToNode::kAck, 1, units);
  expectHears(*connection, FromNode::kOutput);
}

TEST_F(ServerTest, HoldsASessionsProgramUntilItMayGo) {
  const auto connection = withSession();
  const auto echo = spec({"echo", "x"});
  say(*connection, ToNode::kOpen, 2, opening(echo, echo));
  say(*connection, ToNode::kOpen, 3, opening(echo, echo));
  say(*connection, ToNode::kOpen, 4, opening(echo, spec({"echo", "y"})));
  const auto refused = hear(*connection);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->type, static_cast<uint16_t>(FromNode::kFailed)) << "at once";
  EXPECT_EQ(refused->channel, 4U);
  say(*connection, ToNode::kGo, 4);  // crosses the refusal
  say(*connection, ToNode::kTeardown, 2);
  const auto gone = hear(*connection);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->type, static_cast<uint16_t>(FromNode::kTornDown)) << "it never ran";
  EXPECT_EQ(gone->channel, 2U);
  say(*connection, ToNode::kGo, 3);
  for (const FromNode next : {FromNode::kStarted, FromNode::kOutput, FromNode::kFinished}) {
    const auto frame = hear(*connection);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->type, static_cast<uint16_t>(next));
    EXPECT_EQ(frame->channel, 3U);
  }
}

// The node itself must refuse, without relying on the control plane.
TEST_F(ServerTest, WhatWasOpenedBeforeTheWorkspaceIsHeldDoesNotStartMeanwhile) {
  const auto connection = withSession();
  const auto echo = spec({"echo", "x"});
  auto holder = spec({"hold", "alone", "1", "1"});
  holder.for_files = holder.keep_input = true;
  const auto expectFrames = [&](uint32_t channel, std::initializer_list<FromNode> frames) {
    for (const FromNode next : frames) {
      const auto frame = hear(*connection);
      ASSERT_TRUE(frame) << frame.error().message;
      EXPECT_EQ(frame->type, static_cast<uint16_t>(next));
      EXPECT_EQ(frame->channel, channel);
    }
  };
  say(*connection, ToNode::kOpen, 2, opening(echo, echo));
  say(*connection, ToNode::kOpen, 3, opening(holder, holder));
  say(*connection, ToNode::kGo, 3);
  expectFrames(3, {FromNode::kStarted, FromNode::kOutput});
  say(*connection, ToNode::kGo, 2);
  say(*connection, ToNode::kOpen, 4, opening(echo, echo));
  say(*connection, ToNode::kGo, 4);
  expectFrames(4, {FromNode::kStarted, FromNode::kOutput, FromNode::kFinished});
  say(*connection, ToNode::kTeardown, 3);
  expectFrames(3, {FromNode::kTornDown});
  expectFrames(2, {FromNode::kStarted, FromNode::kOutput, FromNode::kFinished});
}

// Only the window bounds the input, whatever the pieces.
TEST_F(ServerTest, InputMayComeInAnyPieces) {
  const auto connection = withSession();
  auto hold = spec({"hold"});
  hold.keep_input = true;
  say(*connection, ToNode::kOpen, 2, opening(hold, hold));
  say(*connection, ToNode::kGo, 2);
  expectHears(*connection, FromNode::kStarted);
  say(*connection, ToNode::kInput, 2, std::string(wire::kInputPiece, 'x'));  // the whole window
  for (int i = 0; i < 5'000; ++i)
    say(*connection, ToNode::kInput, 2, "x");
  say(*connection, ToNode::kTeardown, 2);
  auto frame = hear(*connection);
  while (frame && frame->type == static_cast<uint16_t>(FromNode::kInputTaken))
    frame = hear(*connection);
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(frame->type, static_cast<uint16_t>(FromNode::kTornDown));
}

TEST_F(ServerTest, AHeldProgramOfASandboxThatIsGoneIsRefused) {
  const auto connection = withSession();
  const auto echo = spec({"echo", "x"});
  say(*connection, ToNode::kOpen, 2, opening(echo, echo));
  say(*connection, ToNode::kTeardown, 1);
  expectHears(*connection, FromNode::kTornDown);
  say(*connection, ToNode::kGo, 2);
  const auto refused = hear(*connection);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->type, static_cast<uint16_t>(FromNode::kFailed));
  EXPECT_EQ(refused->channel, 2U);
}

TEST_F(ServerTest, EndsAConnectionThatBreaksTheProtocol) {
  const auto of = spec({"hold"});
  const std::string permit = permitFor(of);
  const std::string program = wire::encodeExecSpec(of);
  const auto breaks = [&](auto talk) {
    const auto connection = raw();
    talk(*connection);
    expectEnded(*connection);
    EXPECT_TRUE(node_.runUntil([&] { return node_.fake.live() == 0; }));
  };
  breaks([&](FrameConnection& c) { say(c, ToNode::kExec, 1, program); });
  breaks([&](FrameConnection& c) { say(c, ToNode::kProvision, 0, permitFor(of)); });
  breaks([&](FrameConnection& c) { say(c, ToNode::kProvision, 1, "garbage"); });
  breaks([&](FrameConnection& c) { c.post(99, 1); });
  breaks([&](FrameConnection& c) { c.post(static_cast<uint16_t>(FromNode::kOffer), 1); });
  breaks([&](FrameConnection& c) {
    say(c, ToNode::kProvision, 5, permitFor(of));
    say(c, ToNode::kProvision, 5, permitFor(of));
  });
  breaks([&](FrameConnection& c) {
    say(c, ToNode::kProvision, 1, permitFor(of));
    expectHears(c, FromNode::kProvisioned);
    say(c, ToNode::kExec, 1, program);
    say(c, ToNode::kExec, 1, program);
  });
  for (const std::string payload : {"", "x"}) {
    const auto connection = withSession();
    say(*connection, ToNode::kOpen, 2, opening(of, of));
    if (payload.empty()) say(*connection, ToNode::kGo, 2);
    say(*connection, ToNode::kGo, 2, payload);
    expectEnded(*connection);
    EXPECT_TRUE(node_.runUntil([&] { return node_.fake.live() == 0; }));
  }
  breaks([&](FrameConnection& c) {
    say(c, ToNode::kProvision, 1, permitFor(of));
    expectHears(c, FromNode::kProvisioned);
    say(c, ToNode::kAck, 1, std::string("\x01\x00\x00\x00", 4));
  });
}

TEST_F(ServerTest, ReadsTheKeyAtEachConnection) {
  ServerConfig config;
  config.socket = node_.dir.path() + "/second.sock";
  config.control_uid = getuid();
  config.offer.max_sandboxes = 1;
  config.key_path = node_.dir.path() + "/permit.pub";
  PermitGate gate(ceilingForTests());
  async::spawn(node_.io.get_executor(),
               [](ServerConfig with, PermitGate& at, runtime::FakeRuntime& fake) -> Task<void> {
                 std::map<std::string, runtime::Runtime*> runtimes = {{"fake", &fake}};
                 co_await serve(std::move(with), at, std::move(runtimes));
               }(config, gate, node_.fake));
  EXPECT_FALSE(async::runTask(node_.io, runtime::connectNode(config.socket)))
      << "there is no key yet";
  const std::string key = node_.key.verifyKey().base64() + "\n";
  ASSERT_TRUE(base::writeFileAtomic(config.key_path, key, 0644));
  auto remote = async::runTask(node_.io, runtime::connectNode(config.socket));
  ASSERT_TRUE(remote) << remote.error().message;
  EXPECT_TRUE(provision(**remote, spec({"echo", "x"})));
}

TEST_F(ServerTest, AdmitsOnlyTheControlPlaneAndRoot) {
  using Peer = net::ByteStream::Peer;
  const auto check = [&](std::optional<Peer> peer) {
    const auto [ours, theirs] = net::MemoryStream::pair(node_.io.get_executor(), peer);
    return checkPeer(*ours, 1000);
  };
  EXPECT_TRUE(check(Peer{.pid = 7, .uid = 1000}));
  EXPECT_TRUE(check(Peer{.pid = 7, .uid = 0}));
  const auto another = check(Peer{.pid = 7, .uid = 1001});
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().code, Code::kDenied);
  EXPECT_NE(another.error().message.find("1001"), std::string::npos);
  const auto unknown = check(std::nullopt);
  ASSERT_FALSE(unknown) << "the transport has no record";
  EXPECT_EQ(unknown.error().code, Code::kDenied);
}

TEST_F(ServerTest, SaysWhyItCannotListen) {
  ServerConfig config;
  config.socket = "/no/such/directory/node.sock";
  const auto served = async::runTask(node_.io, serve(config, node_.gate, {}));
  ASSERT_FALSE(served);
  EXPECT_NE(served.error().message.find(config.socket), std::string::npos);
}

}  // namespace
}  // namespace cloister::node
