// SPDX-License-Identifier: Apache-2.0
// The node's end of the connection to cloister-egress, against a scripted other end.
#include "sandbox/door/doors.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/door/doors_harness.h"

namespace cloister::runtime {
namespace {

using testing::HasSubstr;
using wire::egress::DoorMessage;
using wire::egress::DoorPacket;
using Attached = Result<std::shared_ptr<HeldDoor>>;

class DoorsTest : public testing::Test {
 protected:
  void SetUp() override {
    constexpr unsigned kSeconds = 30;
    ::alarm(kSeconds);
    doors_ = std::make_shared<Doors>(io_.get_executor(), egress_.path(),
                                     Doors::Terms{Millis(300), Millis(300), Millis(20)});
    doors_->start();
  }
  void TearDown() override {
    io_.shutdown();
    ::alarm(0);
  }

  void attach() {
    DoorSockets sockets;
    sockets.listeners.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockets.dns = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    attached_.reset();
    async::spawn(io_.get_executor(), keep(std::move(sockets)));
  }
  Task<void> keep(DoorSockets sockets) {
    attached_ = co_await doors_->attach("permit_1", std::string(64, 'a'), std::move(sockets));
  }
  // A door that the other end serves.
  uint64_t openDoor() {
    attach();
    const uint64_t id = packet(2).door.id;
    say(DoorMessage::kAttached, id);
    until([&] { return attached_.has_value(); });
    EXPECT_TRUE(*attached_);
    return id;
  }

  void acceptNode() { egress_.acceptNode(); }
  DoorPacket packet(size_t fds = 0) { return egress_.packet(fds); }
  template <class... Words>
  void say(const Words&... words) {
    egress_.say(words...);
  }
  template <class Done>
  void until(Done done) {
    egress_.until(std::move(done));
  }

  struct Io : boost::asio::io_context {
    using boost::asio::execution_context::shutdown;
    using boost::asio::io_context::io_context;
  };

  Io io_{1};
  ScriptedEgress egress_{io_};
  std::shared_ptr<Doors> doors_;
  std::optional<Attached> attached_;
};

TEST_F(DoorsTest, HandsASandboxOver) {
  acceptNode();
  attach();
  const DoorPacket asked = packet(2);
  EXPECT_EQ(asked.type, DoorMessage::kAttach);
  EXPECT_EQ(asked.door.permit, "permit_1");
  EXPECT_EQ(asked.door.plan_sha256, std::string(64, 'a'));
  EXPECT_EQ(asked.door.listeners, 1U);
  EXPECT_TRUE(asked.door.has_dns);
  EXPECT_FALSE(asked.door.has_log);
  EXPECT_FALSE(attached_) << "before the answer";
  say(DoorMessage::kAttached, asked.door.id);
  until([&] { return attached_.has_value(); });
  EXPECT_TRUE(*attached_);
  EXPECT_EQ(doors_->size(), 1U);
}

TEST_F(DoorsTest, ARefusalSaysWhy) {
  acceptNode();
  attach();
  const uint64_t id = packet(2).door.id;
  say(wire::egress::encodeRefused(id, {Code::kDenied, "the permit's plan is another one", {}, 0}));
  until([&] { return attached_.has_value(); });
  ASSERT_FALSE(*attached_);
  EXPECT_EQ(attached_->error().code, Code::kDenied);
  EXPECT_THAT(attached_->error().message, HasSubstr("another one"));
  EXPECT_EQ(doors_->size(), 0U);
}

TEST_F(DoorsTest, WithoutAnAnswerTheWaitEnds) {
  acceptNode();
  attach();
  until([&] { return attached_.has_value(); });
  ASSERT_FALSE(*attached_);
  EXPECT_EQ(attached_->error().code, Code::kInternal);
  EXPECT_THAT(attached_->error().message, HasSubstr("does not answer"));
}

TEST_F(DoorsTest, WithoutTheProcessTheErrorNamesIt) {
  egress_.stopListening();
  attach();
  until([&] { return attached_.has_value(); });
  ASSERT_FALSE(*attached_);
  EXPECT_THAT(attached_->error().message, HasSubstr("cloister-egress is not running"));
}

TEST_F(DoorsTest, ComesAgainAfterARestart) {
  acceptNode();
  const uint64_t id = openDoor();
  egress_.hangUp();
  acceptNode();
  const DoorPacket again = packet(2);
  EXPECT_EQ(again.type, DoorMessage::kAttach);
  EXPECT_EQ(again.door.id, id);
  // The plan is not there yet: the door is tried again.
  say(wire::egress::encodeRefused(id, {Code::kUnavailable, "no plan", {}, 0}));
  EXPECT_EQ(packet(2).door.id, id);
  EXPECT_EQ(doors_->size(), 1U);
}

TEST_F(DoorsTest, AReleaseWaitsForTheOtherEnd) {
  acceptNode();
  const uint64_t id = openDoor();
  bool released = false;
  async::spawn(io_.get_executor(), [](auto door, bool& done) -> Task<void> {
    co_await door->release();
    done = true;
  }(**attached_, released));
  const DoorPacket detach = packet();
  EXPECT_EQ(detach.type, DoorMessage::kDetach);
  EXPECT_EQ(detach.door.id, id);
  EXPECT_EQ(doors_->size(), 0U);
  EXPECT_FALSE(released);
  say(DoorMessage::kDetached, id);
  until([&] { return released; });
}

TEST_F(DoorsTest, AReleaseWaitsABoundedTime) {
  acceptNode();
  openDoor();
  const auto begun = base::monotonicNow();
  async::runTask(io_, [](auto door) -> Task<bool> {
    co_await door->release();
    co_return true;
  }(**attached_));
  EXPECT_LT(base::monotonicNow() - begun, Millis(5'000));
}

TEST_F(DoorsTest, ADroppedDoorIsDetached) {
  acceptNode();
  const uint64_t id = openDoor();
  attached_.reset();
  const DoorPacket detach = packet();
  EXPECT_EQ(detach.type, DoorMessage::kDetach);
  EXPECT_EQ(detach.door.id, id);
}

TEST_F(DoorsTest, HostileBytesEndTheConnectionAlone) {
  acceptNode();
  const uint64_t id = openDoor();
  for (const std::string& bytes : {std::string("x"), std::string(500, '\xff'),
                                   wire::egress::encodeDoorId(DoorMessage::kDetach, id)}) {
    say(bytes);
    acceptNode();
    EXPECT_EQ(packet(2).door.id, id);
    say(DoorMessage::kAttached, id + 99);  // no such door
    say(DoorMessage::kAttached, id);
  }
}

}  // namespace
}  // namespace cloister::runtime
