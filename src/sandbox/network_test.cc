// SPDX-License-Identifier: Apache-2.0
// Sandboxes with a network: the door is there before the program, and goes with the sandbox.
#include <gmock/gmock.h>

#include "sandbox/network_fixture.h"

namespace cloister::runtime {
namespace {

using testing::HasSubstr;

class ProcessNetworkTest : public NetworkTest {
 protected:
  ProcessNetworkTest() : NetworkTest("process", testbed::host()) {}
  void TearDown() override {
    NetworkTest::TearDown();
    if (testbed::host()) EXPECT_EQ(testbed::left(), 0U);
  }
};

TEST_F(ProcessNetworkTest, AProgramsConnectionReachesTheDoor) {
  wire::egress::Door door;
  Sandbox* const sandbox = served(door);
  ASSERT_NE(sandbox, nullptr);
  start(*sandbox, kReadsALine);
  Fd peer = accepted(door);
  ASSERT_TRUE(peer) << seen_.err;
  EXPECT_EQ(ownEnd(peer), "198.18.0.77 443");
  ASSERT_EQ(::send(peer.get(), "hello\n", 6, MSG_NOSIGNAL), 6);
  egress_.until([&] { return outcome_.has_value(); });
  EXPECT_EQ(seen_.out, "hello\n");
  peer.reset();
  end(*sandbox, door);
}

TEST_F(ProcessNetworkTest, WithoutAPlanThereIsNoSandbox) {
  const auto door = asked();
  egress_.say(
      wire::egress::encodeRefused(door.id, {Code::kUnavailable, "there is no plan", {}, 0}));
  egress_.until([&] { return provisioned_.has_value(); });
  ASSERT_FALSE(*provisioned_);
  EXPECT_EQ(provisioned_->error().code, Code::kInternal) << "the node is not lost";
  EXPECT_THAT(provisioned_->error().message, HasSubstr("there is no plan"));
}

// So their doors are opened ahead (pool_door_test.cc).
TEST_F(ProcessNetworkTest, SandboxesWithANetworkAreAKindOfThePool) {
  auto without = async::runTask(io_, runtime_->provision(testbed::permit()));
  ASSERT_TRUE(without) << without.error().message;
  ASSERT_EQ(runtime_->pool()->kinds.size(), 1U);
  const auto door = asked();
  EXPECT_EQ(runtime_->pool()->kinds.size(), 2U);
  egress_.say(ScriptedEgress::DoorMessage::kAttached, door.id);
  egress_.until([&] { return provisioned_.has_value(); });
  ASSERT_TRUE(*provisioned_) << provisioned_->error().message;
  std::ignore = async::runTask(io_, (*without)->teardown());
  async::spawn(io_.get_executor(), teardown(***provisioned_));
  egress_.say(ScriptedEgress::DoorMessage::kDetached, egress_.packet().door.id);
  egress_.until([&] { return torn_down_; });
}

TEST_F(ProcessNetworkTest, WithoutANetworkNoDoorIsMade) {
  auto sandbox = async::runTask(io_, runtime_->provision(testbed::permit()));
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  EXPECT_EQ(doors_->size(), 0U);
  std::ignore = async::runTask(io_, (*sandbox)->teardown());
}

}  // namespace
}  // namespace cloister::runtime
