// SPDX-License-Identifier: Apache-2.0
// Sandboxes with a network: the door is there before the program, and goes with the sandbox.
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/door/doors.h"
#include "sandbox/door/doors_harness.h"
#include "sandbox/host/host.h"
#include "sandbox/process_runtime.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using namespace testbed;
using testing::HasSubstr;
using wire::egress::DoorMessage;

class NetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!host()) GTEST_SKIP() << host().error().message;
    doors_ = std::make_shared<Doors>(
        io_.get_executor(), egress_.path(),
        Doors::Terms{.attach = Millis(10'000), .detach = Millis(10'000), .again = Millis(100)});
    doors_->start();
    NetworkParts network;
    network.doors = doors_;
    runtime_ = makeProcessRuntime(io_.get_executor(), *host(), nullptr, network);
    egress_.acceptNode();
  }
  void TearDown() override {
    runtime_.reset();
    if (host()) EXPECT_EQ(left(), 0U);
  }

  static model::SignedPermit permitWithNetwork() {
    auto fields = *wire::decodePermit(permit().encoded);
    fields.network_tier = "restricted";
    fields.network_plan_sha256 = std::string(64, 'a');
    return {wire::encodePermit(fields), {}};
  }
  Task<void> provision() { provisioned_ = co_await runtime_->provision(permitWithNetwork()); }
  // The descriptors of the door that the node hands over for a new sandbox.
  wire::egress::Door asked() {
    async::spawn(io_.get_executor(), provision());
    std::optional<wire::egress::DoorPacket> packet;
    egress_.until([&] {
      packet = egress_.packetNow();
      return packet || provisioned_;
    });
    if (packet) return packet->door;
    ADD_FAILURE() << provisioned_->error().message;
    return {};
  }
  Task<void> exec(Sandbox& sandbox) {
    outcome_ = co_await sandbox.exec(
        shell("exec bash -c 'exec 3<>/dev/tcp/198.18.0.77/443; read -r line <&3; echo \"$line\"'"),
        seen_);
  }
  Task<void> teardown(Sandbox& sandbox) {
    std::ignore = co_await sandbox.teardown();
    torn_down_ = true;
  }

  boost::asio::io_context io_{1};
  ScriptedEgress egress_{io_};
  std::shared_ptr<Doors> doors_;
  std::unique_ptr<Runtime> runtime_;
  Recorder seen_;
  std::optional<Result<std::unique_ptr<Sandbox>>> provisioned_;
  std::optional<Result<model::Outcome>> outcome_;
  bool torn_down_ = false;
};

TEST_F(NetworkTest, AProgramsConnectionReachesTheDoor) {
  const auto door = asked();
  ASSERT_GT(egress_.fds.size(), 0U);
  EXPECT_EQ(door.plan_sha256, std::string(64, 'a'));
  EXPECT_FALSE(provisioned_) << "before the door is served";
  egress_.say(DoorMessage::kAttached, door.id);
  egress_.until([&] { return provisioned_.has_value(); });
  ASSERT_TRUE(*provisioned_) << provisioned_->error().message;
  Sandbox& sandbox = ***provisioned_;
  async::spawn(io_.get_executor(), exec(sandbox));
  Fd accepted;
  egress_.until([&] {
    for (uint32_t i = 0; i < door.listeners && !accepted; ++i) {
      accepted = Fd(::accept4(egress_.fds[i].get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    return accepted || outcome_;
  });
  ASSERT_TRUE(accepted) << seen_.err;
  sockaddr_in at{};
  socklen_t size = sizeof at;
  ASSERT_EQ(::getsockname(accepted.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  EXPECT_EQ(ntohl(at.sin_addr.s_addr), 0xc612004dU) << "198.18.0.77";
  EXPECT_EQ(ntohs(at.sin_port), 443);
  ASSERT_EQ(::send(accepted.get(), "hello\n", 6, MSG_NOSIGNAL), 6);
  egress_.until([&] { return outcome_.has_value(); });
  EXPECT_EQ(seen_.out, "hello\n");

  async::spawn(io_.get_executor(), teardown(sandbox));
  const auto detach = egress_.packet();
  EXPECT_EQ(detach.type, DoorMessage::kDetach);
  EXPECT_FALSE(torn_down_) << "a socket of the namespace is held";
  accepted.reset();
  egress_.say(DoorMessage::kDetached, door.id);
  egress_.until([&] { return torn_down_; });
  EXPECT_EQ(doors_->size(), 0U);
}

TEST_F(NetworkTest, WithoutAPlanThereIsNoSandbox) {
  const auto door = asked();
  egress_.say(
      wire::egress::encodeRefused(door.id, {Code::kUnavailable, "there is no plan", {}, 0}));
  egress_.until([&] { return provisioned_.has_value(); });
  ASSERT_FALSE(*provisioned_);
  EXPECT_EQ(provisioned_->error().code, Code::kInternal) << "the node is not lost";
  EXPECT_THAT(provisioned_->error().message, HasSubstr("there is no plan"));
}

// So their doors are opened ahead (pool_door_test.cc).
TEST_F(NetworkTest, SandboxesWithANetworkAreAKindOfThePool) {
  auto without = async::runTask(io_, runtime_->provision(permit()));
  ASSERT_TRUE(without) << without.error().message;
  ASSERT_EQ(runtime_->pool()->kinds.size(), 1U);
  const auto door = asked();
  EXPECT_EQ(runtime_->pool()->kinds.size(), 2U);
  egress_.say(DoorMessage::kAttached, door.id);
  egress_.until([&] { return provisioned_.has_value(); });
  ASSERT_TRUE(*provisioned_) << provisioned_->error().message;
  std::ignore = async::runTask(io_, (*without)->teardown());
  async::spawn(io_.get_executor(), teardown(***provisioned_));
  egress_.say(DoorMessage::kDetached, egress_.packet().door.id);
  egress_.until([&] { return torn_down_; });
}

TEST_F(NetworkTest, WithoutANetworkNoDoorIsMade) {
  auto sandbox = async::runTask(io_, runtime_->provision(permit()));
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  EXPECT_EQ(doors_->size(), 0U);
  std::ignore = async::runTask(io_, (*sandbox)->teardown());
}

}  // namespace
}  // namespace cloister::runtime
