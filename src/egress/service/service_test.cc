// SPDX-License-Identifier: Apache-2.0
// The service over real sockets: plans, doors, connections and the record.
#include "egress/service/plans.h"
#include "egress/service/service_harness.h"

namespace cloister::egress {
namespace {

using model::OnDenied;
using testing::HasSubstr;

std::string refusalOf(const net::Frame& frame) {
  EXPECT_EQ(frame.type, static_cast<uint16_t>(FromEgress::kFailed));
  return wire::decodeError(frame.payload).value_or(Error{}).message;
}

TEST_F(ServiceTest, AnAllowedNameIsRelayedCountedAndRecorded) {
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  const auto begun = attempt([](const auto& each) { return each.allowed && each.count == 1; });
  EXPECT_EQ(begun.host, "echo.test");
  EXPECT_EQ(begun.port, door_port_);
  EXPECT_EQ(begun.transport, "tcp");
  EXPECT_EQ(begun.rule, "echoes");
  EXPECT_THAT(begun.address, HasSubstr("127.0.0.1"));
  EXPECT_EQ(begun.plan_sha256, base::sha256Hex(model::encodePlan(plan())));
  EXPECT_EQ(use().connections, 1U);
  EXPECT_EQ(use().bytes_in, 4U);
  EXPECT_EQ(use().bytes_out, 4U);
  socket->close();
  const auto ended = attempt([](const auto& each) { return each.bytes_out != 0; });
  EXPECT_EQ(ended.bytes_in, 4U);
  EXPECT_EQ(ended.bytes_out, 4U);
}

TEST_F(ServiceTest, AnAddressWithoutANameIsResetAndRecorded) {
  ready();
  openDoor(plan());
  EXPECT_EQ(run(ping(run(connectTo(asio::ip::address_v4::loopback())))), "");
  const auto refused = attempt([](const auto& each) { return !each.allowed; });
  EXPECT_EQ(refused.host, "127.0.0.1");
  EXPECT_EQ(refused.port, door_port_);
  EXPECT_FALSE(refused.reason.empty());
  const auto denied = use().denied;
  ASSERT_EQ(denied.size(), 1U);
  EXPECT_EQ(denied[0].host, "127.0.0.1");
  EXPECT_FALSE(denied[0].remedy.empty());
}

TEST_F(ServiceTest, ANameThatNoRuleAllowsIsNotThere) {
  ready();
  openDoor(plan());
  EXPECT_EQ(lookUp("evil.test").code, dns::Rcode::kNxDomain);
  const auto refused = attempt([](const auto& each) { return !each.allowed; });
  EXPECT_EQ(refused.host, "evil.test");
  EXPECT_EQ(refused.transport, "dns");
}

TEST_F(ServiceTest, ADoorWaitsForItsPlanAndNoOther) {
  ready();
  const std::string digest = base::sha256Hex(model::encodePlan(plan()));
  handOver(1, digest);
  accept(plan());
  EXPECT_EQ(packet().type, DoorMessage::kAttached);
  handOver(2, std::string(64, 'a'));
  auto refused = packet();
  EXPECT_EQ(refused.type, DoorMessage::kRefused);
  EXPECT_EQ(refused.door.id, 2U);
  EXPECT_EQ(refused.why.code, Code::kDenied);
  post(ToEgress::kForget, kPermit);
  handOver(3, digest);
  refused = packet();
  EXPECT_EQ(refused.why.code, Code::kUnavailable) << "no plan within the patience";
}

TEST_F(ServiceTest, ALaterPlanServesADoorThatComesAgain) {
  ready();
  accept(plan(3));
  handOver(1, base::sha256Hex(model::encodePlan(plan(1))));
  EXPECT_EQ(packet().type, DoorMessage::kAttached);
}

TEST_F(ServiceTest, PlansAreSignedAndNeverGrowOlder) {
  ready();
  accept(plan(2));
  accept(plan(2));  // repeated after a reconnection
  EXPECT_THAT(refusalOf(send(plan(1))), HasSubstr("not higher"));
  model::NetworkPlan other = plan(2);
  other.rules.clear();
  EXPECT_THAT(refusalOf(send(other)), HasSubstr("not higher"));
  model::SignedPlan forged = sign(plan(3));
  forged.encoded = model::encodePlan(plan(4));
  EXPECT_THAT(refusalOf(ask(ToEgress::kPlan, wire::egress::encodeSignedPlan(forged))),
              HasSubstr("signature"));
  const std::string junk = "{}";
  EXPECT_FALSE(
      refusalOf(ask(ToEgress::kPlan, wire::egress::encodeSignedPlan({junk, key_.sign(junk)})))
          .empty());
  accept(plan(3));
}

TEST_F(ServiceTest, TighterRulesCutATunnelWithinASecond) {
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  model::NetworkPlan tighter = plan(2);
  tighter.rules.clear();
  accept(tighter);
  const auto begun = base::monotonicNow();
  run(untilClosed(socket));
  EXPECT_LT(base::monotonicNow() - begun, Millis(1'000));
}

TEST_F(ServiceTest, AForgottenPermitLosesItsConnections) {
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  post(ToEgress::kForget, kPermit);
  run(untilClosed(socket));
  EXPECT_EQ(lookUp("echo.test").code, dns::Rcode::kNxDomain);
  EXPECT_THAT(refusalOf(ask(ToEgress::kUse, kPermit)), HasSubstr("not known"));
}

TEST_F(ServiceTest, WithoutALedgerNoConnectionIsMade) {
  ready();
  openDoor(plan());
  const auto address = addressOf("echo.test");
  post(ToEgress::kStop, std::string(1, '\1'));
  use();  // the message before is taken
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
  post(ToEgress::kStop, std::string(1, '\0'));
  use();
  EXPECT_EQ(run(ping(run(connectTo(address)))), "ping");
}

TEST_F(ServiceTest, WithoutRoomForAttemptsNoConnectionIsMade) {
  settings_.attempts_kept = 1;
  ready();
  openDoor(plan());
  const auto address = addressOf("echo.test");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "ping");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
  attempt([](const auto& each) { return each.allowed; });
  post(ToEgress::kTaken, u64(last_batch_));
  use();
  EXPECT_EQ(run(ping(run(connectTo(address)))), "ping");
}

TEST_F(ServiceTest, BatchesAreRepeatedUntilTheyAreTaken) {
  ready();
  openDoor(plan());
  lookUp("evil.test");
  attempt([](const auto& each) { return each.host == "evil.test"; });
  EXPECT_EQ(last_batch_, kLastBatch + 1);
  control_->close();
  run(pause(Millis(50)));
  connectControl();
  attempt([](const auto& each) { return each.host == "evil.test"; });
  EXPECT_EQ(last_batch_, kLastBatch + 1);
  post(ToEgress::kTaken, u64(last_batch_));
  accept(plan());
  lookUp("other.test");
  attempt([](const auto& each) {
    EXPECT_NE(each.host, "evil.test") << "taken, and sent again";
    return each.host == "other.test";
  });
}

TEST_F(ServiceTest, PlansThatAreNotRepeatedEnd) {
  settings_.settle = Millis(100);
  ready();
  openDoor(plan());
  control_->close();
  run(pause(Millis(50)));
  connectControl();
  run(pause(Millis(150)));
  EXPECT_EQ(lookUp("echo.test").code, dns::Rcode::kNxDomain);
}

TEST_F(ServiceTest, AnApproverIsAskedOnceAndTheAttemptRefused) {
  ready();
  model::NetworkPlan asking = plan();
  asking.on_denied = OnDenied::kEscalate;
  openDoor(asking);
  const auto address = addressOf("new.test");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
  const auto wanted = wire::egress::decodeWanted(next(FromEgress::kWanted).payload);
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(wanted->host, "new.test");
  EXPECT_EQ(wanted->port, door_port_);
  EXPECT_EQ(wanted->permit, kPermit);
  EXPECT_FALSE(wanted->waits);
  post(ToEgress::kUse, kPermit, 99);
  const auto after = run(control_->read(wire::egress::kMaxPayload));
  EXPECT_NE(after->type, static_cast<uint16_t>(FromEgress::kWanted)) << "asked twice";
}

TEST_F(ServiceTest, AnEscalationNamesTheProgramThatTheNodeKnows) {
  settings_.who = std::chrono::seconds(20);
  ready();
  model::NetworkPlan asking = plan();
  asking.on_denied = OnDenied::kEscalate;
  openDoor(asking);
  const auto socket = run(connectTo(addressOf("new.test")));
  const auto asked = packet();
  ASSERT_EQ(asked.type, DoorMessage::kWho);
  EXPECT_EQ(asked.door.id, 1U);
  EXPECT_EQ(asked.who.client_port, socket->local_endpoint().port());
  EXPECT_EQ(asked.who.asked_port, door_port_);
  EXPECT_EQ(asked.who.asked, socket->remote_endpoint().address().to_v4().to_uint());
  ASSERT_TRUE(linux::sendMessage(node_->native_handle(),
                                 wire::egress::encodeProgram(1, asked.who.number, "curl")));
  EXPECT_EQ(wire::egress::decodeWanted(next(FromEgress::kWanted).payload)->program, "curl");
  run(untilClosed(socket));
}

// The refusal does not wait for a node that says nothing.
TEST_F(ServiceTest, AnEscalationWithoutAnAnswerOfTheNodeNamesNoProgram) {
  settings_.who = Millis(100);
  ready();
  model::NetworkPlan asking = plan();
  asking.on_denied = OnDenied::kEscalate;
  openDoor(asking);
  const auto before = base::monotonicNow();
  run(untilClosed(run(connectTo(addressOf("new.test")))));
  EXPECT_LT(base::monotonicNow() - before, std::chrono::seconds(2));
  EXPECT_EQ(wire::egress::decodeWanted(next(FromEgress::kWanted).payload)->program, "");
}

TEST_F(ServiceTest, AConnectionWaitsForTheApprover) {
  ready();
  model::NetworkPlan asking = plan();
  asking.rules.clear();
  asking.on_denied = OnDenied::kAsk;
  openDoor(asking);
  auto socket = run(connectTo(addressOf("echo.test")));
  const auto wanted = wire::egress::decodeWanted(next(FromEgress::kWanted).payload);
  ASSERT_TRUE(wanted);
  EXPECT_TRUE(wanted->waits);
  accept(plan(2));
  EXPECT_EQ(run(ping(socket)), "ping");
}

TEST_F(ServiceTest, AConnectionWaitsABoundedTime) {
  settings_.ask = Millis(100);
  ready();
  model::NetworkPlan asking = plan();
  asking.rules.clear();
  asking.on_denied = OnDenied::kAsk;
  openDoor(asking);
  EXPECT_EQ(run(ping(run(connectTo(addressOf("echo.test"))))), "");
}

TEST_F(ServiceTest, ConnectionsPerSecondAreBounded) {
  settings_.connections_per_second = 2;
  ready();
  openDoor(plan());
  const auto address = addressOf("echo.test");
  std::vector<std::shared_ptr<tcp::socket>> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(run(connectTo(address)));
    EXPECT_EQ(run(ping(open.back())), "ping");
  }
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
  const auto refused = attempt([](const auto& each) { return !each.allowed; });
  EXPECT_EQ(refused.host, "echo.test");
  EXPECT_THAT(refused.reason, HasSubstr("2 connections in a second"));
}

TEST_F(ServiceTest, OpenConnectionsAreBounded) {
  settings_.open_connections = 1;
  ready();
  openDoor(plan());
  const auto address = addressOf("echo.test");
  auto first = run(connectTo(address));
  EXPECT_EQ(run(ping(first)), "ping");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
}

TEST_F(ServiceTest, AnIdleConnectionIsCut) {
  settings_.idle = Millis(100);
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  run(untilClosed(socket));
}

TEST_F(ServiceTest, LookUpsPerSecondAreBounded) {
  settings_.lookups_per_second = 1;
  ready();
  openDoor(plan());
  EXPECT_EQ(lookUp("evil.test").code, dns::Rcode::kNxDomain);
  const auto begun = base::monotonicNow();
  async::spawn(io_.get_executor(), [](auto task) -> asio::awaitable<void> {
    co_await std::move(task);
  }(lookUpBytes("dropped.test", dns::Type::kA)));
  run(pause(Millis(300)));
  for (const auto& denied : use().denied)
    EXPECT_NE(denied.host, "dropped.test");
  EXPECT_LT(base::monotonicNow() - begun, Millis(900));
}

TEST_F(ServiceTest, BytesOfARuleAreBounded) {
  ready();
  model::NetworkPlan small = plan();
  small.rules[0].entry.max_bytes = 10;
  openDoor(small);
  const auto address = addressOf("echo.test");
  auto socket = run(connectTo(address));
  EXPECT_EQ(run(ping(socket)), "ping");
  EXPECT_EQ(run(ping(socket)), "") << "16 bytes are over the bound";
}

TEST_F(ServiceTest, RequestsPerMinuteOfAnAgentAreBounded) {
  ready();
  model::NetworkPlan slow = plan();
  slow.agent = "alice";
  slow.requests_per_minute = 1;
  openDoor(slow);
  const auto address = addressOf("echo.test");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "ping");
  EXPECT_EQ(run(ping(run(connectTo(address)))), "");
}

TEST_F(ServiceTest, TheNextSandboxOfAnAgentHasNoNewRequests) {
  ready();
  Settings settings;
  asio::io_context io;
  Plans plans(io.get_executor(), settings);
  plans.trust(key_.verifyKey());
  const auto accept = [&](const std::string& permit) {
    model::NetworkPlan each = plan();
    each.permit = permit;
    each.agent = "alice";
    each.requests_per_minute = 1;
    const std::string encoded = model::encodePlan(each);
    const auto accepted = plans.accept({.encoded = encoded, .signature = key_.sign(encoded)});
    ASSERT_TRUE(accepted) << accepted.error().message;
  };
  accept("permit_1");
  EXPECT_TRUE(plans.find("permit_1")->takeRequest());
  plans.forget("permit_1");
  accept("permit_2");
  EXPECT_FALSE(plans.find("permit_2")->takeRequest());
}

TEST_F(ServiceTest, ADetachedDoorHoldsNoSocket) {
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  listener_.reset();
  dns_.reset();
  ASSERT_TRUE(linux::sendMessage(node_->native_handle(),
                                 wire::egress::encodeDoorId(DoorMessage::kDetach, 1)));
  EXPECT_EQ(packet().type, DoorMessage::kDetached);
  run(untilClosed(socket));
  tcp::socket again(io_);
  boost::system::error_code error;
  again.connect({asio::ip::address_v4::loopback(), door_port_}, error);
  EXPECT_EQ(error, asio::error::connection_refused);
}

// A held socket keeps the namespace of its sandbox alive.
TEST_F(ServiceTest, ADoorThatWaitsForItsPlanIsDetachedAtOnce) {
  settings_.attach_patience = std::chrono::seconds(20);
  ready();
  for (const bool by_node : {false, true}) {
    handOver(by_node ? 1 : 2, std::string(64, 'a'));
    run(pause(Millis(50)));
    listener_.reset();
    if (by_node) {
      node_.reset();
      run(pause(Millis(50)));
    } else {
      ASSERT_TRUE(linux::sendMessage(node_->native_handle(),
                                     wire::egress::encodeDoorId(DoorMessage::kDetach, 2)));
      EXPECT_EQ(packet().type, DoorMessage::kDetached);
    }
    tcp::socket again(io_);
    boost::system::error_code error;
    again.connect({asio::ip::address_v4::loopback(), door_port_}, error);
    EXPECT_EQ(error, asio::error::connection_refused) << by_node;
    openSockets();
  }
}

TEST_F(ServiceTest, DoorsEndWithTheNodeAndComeAgain) {
  ready();
  openDoor(plan());
  auto socket = run(connectTo(addressOf("echo.test")));
  EXPECT_EQ(run(ping(socket)), "ping");
  node_.reset();
  run(untilClosed(socket));
  connectNode();
  handOver(1, base::sha256Hex(model::encodePlan(plan())));
  EXPECT_EQ(packet().type, DoorMessage::kAttached);
  EXPECT_EQ(run(ping(run(connectTo(addressOf("echo.test"))))), "ping");
}

TEST_F(ServiceTest, HostileBytesEndTheConnectionAlone) {
  ready();
  openDoor(plan());
  const std::vector<std::pair<uint16_t, std::string>> frames = {
      {0, ""}, {99, "x"}, {1, "x"}, {4, "1234567"}, {4, std::string(9, 'x')}, {5, ""}, {5, "\2"}};
  for (const auto& [type, payload] : frames) {
    control_->post(type, 1, payload);
    while (run(control_->read(wire::egress::kMaxPayload))) {
    }
    run(pause(Millis(20)));
    connectControl();
  }
  for (const std::string& packet_bytes :
       {std::string("x"), std::string("\1\0", 2), std::string(3000, '\xff'),
        wire::egress::encodeDoorId(DoorMessage::kAttached, 1)}) {
    ASSERT_TRUE(linux::sendMessage(node_->native_handle(), packet_bytes));
    EXPECT_EQ(run(readPacket()), "");
    connectNode();
  }
  accept(plan());
  handOver(7, base::sha256Hex(model::encodePlan(plan())));
  EXPECT_EQ(packet().type, DoorMessage::kAttached);
  EXPECT_EQ(run(ping(run(connectTo(addressOf("echo.test"))))), "ping");
}

TEST_F(ServiceTest, OnlySocketsOfTheNamedKindAreTaken) {
  ready();
  accept(plan());
  std::swap(listener_, dns_);
  handOver(1, base::sha256Hex(model::encodePlan(plan())));
  EXPECT_EQ(run(readPacket()), "") << "a malformed message ends the connection";
}

TEST_F(ServiceTest, OneControlPlaneAtATime) {
  ready();
  const auto second = run(dialControl());
  EXPECT_FALSE(run(second->read(wire::egress::kMaxPayload)));
  openDoor(plan());
}

TEST_F(ServiceTest, HostileLookUpsAreAnsweredOrDropped) {
  ready();
  openDoor(plan());
  asio::ip::udp::socket socket(io_, asio::ip::udp::v4());
  const asio::ip::udp::endpoint server(asio::ip::make_address("127.0.0.2"), dns_port_);
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(4096, 'x'), std::string(60'000, '\xff')})
    socket.send_to(asio::buffer(bytes), server);
  EXPECT_EQ(lookUp("evil.test").code, dns::Rcode::kNxDomain);
}

}  // namespace
}  // namespace cloister::egress
