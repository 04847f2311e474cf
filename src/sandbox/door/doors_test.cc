// SPDX-License-Identifier: Apache-2.0
// The node's end of the connection to cloister-egress, against a scripted other end.
#include "sandbox/door/doors.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/sock_diag.h"
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

// A connection within this process, so the program is this test.
struct OwnConnection {
  OwnConnection() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    socklen_t size = sizeof at;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size);
    client.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    accepted.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    who.asked_port = ntohs(at.sin_port);
    ::getsockname(client.get(), reinterpret_cast<sockaddr*>(&at), &size);
    who.client_port = ntohs(at.sin_port);
    who.client = who.asked = INADDR_LOOPBACK;
  }
  Fd client;
  Fd accepted;
  wire::egress::Who who;
};

TEST_F(DoorsTest, NamesTheProgramOfAConnection) {
  auto diag = linux::openSockDiag();
  if (!diag) GTEST_SKIP() << "this kernel has no sock_diag";
  acceptNode();
  OwnConnection connection;
  pid_t first = ::getpid();
  DoorSockets sockets;
  sockets.listeners.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockets.diag = *std::move(diag);
  async::spawn(io_.get_executor(), [](auto& self, DoorSockets door, pid_t& process) -> Task<void> {
    self.attached_ = co_await self.doors_->attach("permit_1", std::string(64, 'a'), std::move(door),
                                                  [&process] { return process; });
  }(*this, std::move(sockets), first));
  const uint64_t id = packet(1).door.id;  // the node keeps the socket for questions
  say(DoorMessage::kAttached, id);
  const auto program = [&](uint32_t number) {
    connection.who.number = number;
    say(wire::egress::encodeWho(id, connection.who));
    const DoorPacket answer = packet();
    EXPECT_EQ(answer.type, DoorMessage::kProgram);
    EXPECT_EQ(answer.door.id, id);
    EXPECT_EQ(answer.who.number, number);
    return answer.program;
  };
  EXPECT_EQ(program(7) + "\n", base::readFile("/proc/self/comm", 64).value_or(""));
  first = 0;
  EXPECT_EQ(program(8), "") << "the sandbox is gone";
  first = ::getpid();
  connection.client.reset();
  connection.accepted.reset();
  EXPECT_EQ(program(9), "") << "the connection is closed";
}

TEST_F(DoorsTest, LooksForABoundedNumberOfPrograms) {
  auto diag = linux::openSockDiag();
  if (!diag) GTEST_SKIP() << "this kernel has no sock_diag";
  acceptNode();
  const OwnConnection connection;
  DoorSockets sockets;
  sockets.listeners.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockets.diag = *std::move(diag);
  async::spawn(io_.get_executor(), [](auto& self, DoorSockets door) -> Task<void> {
    self.attached_ = co_await self.doors_->attach("permit_1", std::string(64, 'a'), std::move(door),
                                                  [] { return ::getpid(); });
  }(*this, std::move(sockets)));
  const uint64_t id = packet(1).door.id;
  say(DoorMessage::kAttached, id);
  uint32_t known = 0;
  for (uint32_t i = 0; i < 3 * Doors::kLooksPerSecond; ++i) {
    say(wire::egress::encodeWho(id, connection.who));
    if (!packet().program.empty()) ++known;
  }
  EXPECT_GE(known, Doors::kLooksPerSecond);
  EXPECT_LT(known, 3 * Doors::kLooksPerSecond);
}

}  // namespace
}  // namespace cloister::runtime
