// SPDX-License-Identifier: Apache-2.0
// The node's end of the connection to cloister-egress, against a scripted other end.
#include "sandbox/door/doors.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "linux/message.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
using testing::HasSubstr;
using wire::egress::DoorMessage;
using wire::egress::DoorPacket;
using Attached = Result<std::shared_ptr<HeldDoor>>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

class DoorsTest : public testing::Test {
 protected:
  void SetUp() override {
    constexpr unsigned kSeconds = 30;
    ::alarm(kSeconds);
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    listen();
    doors_ = std::make_shared<Doors>(io_.get_executor(), path(),
                                     Doors::Terms{Millis(300), Millis(300), Millis(20)});
    doors_->start();
  }
  void TearDown() override {
    io_.shutdown();
    std::filesystem::remove_all(dir_);
  }
  [[nodiscard]] std::string path() const { return dir_ + "/egress-node.sock"; }

  void listen() {
    ::unlink(path().c_str());
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path().copy(at.sun_path, sizeof at.sun_path - 1);
    listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(listener_.get(), 4), 0);
  }
  // Runs the node until `done`.
  template <class Done>
  void until(Done done) {
    while (!done())
      async::runTask(io_, tick());
  }
  Task<bool> tick() {
    asio::steady_timer timer(io_, Millis(1));
    co_await timer.async_wait(kTuple);
    co_return true;
  }
  void acceptNode() {
    until([&] {
      peer_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      return static_cast<bool>(peer_);
    });
  }
  // The node's next packet, and the number of descriptors with it.
  DoorPacket packet(size_t fds = 0) {
    std::array<char, wire::egress::kMaxDoorMessage> buffer;
    std::optional<DoorPacket> got;
    until([&] {
      auto message = linux::receiveMessage(peer_.get(), buffer);
      if (!message) return false;
      EXPECT_EQ(message->fds.size(), fds);
      got = wire::egress::decodeDoorPacket({buffer.data(), message->size}).value_or(DoorPacket{});
      return true;
    });
    return *got;
  }
  void say(const std::string& bytes) { EXPECT_TRUE(linux::sendMessage(peer_.get(), bytes)); }
  void say(DoorMessage type, uint64_t door) { say(wire::egress::encodeDoorId(type, door)); }

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

  struct Io : asio::io_context {
    using asio::execution_context::shutdown;
    using asio::io_context::io_context;
  };

  std::string dir_ = testing::TempDir() + "doors-XXXXXX";
  Io io_{1};
  Fd listener_;
  Fd peer_;
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
  listener_.reset();
  attach();
  until([&] { return attached_.has_value(); });
  ASSERT_FALSE(*attached_);
  EXPECT_THAT(attached_->error().message, HasSubstr("cloister-egress is not running"));
}

TEST_F(DoorsTest, ComesAgainAfterARestart) {
  acceptNode();
  const uint64_t id = openDoor();
  peer_.reset();
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
