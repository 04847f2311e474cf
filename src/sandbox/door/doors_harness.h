// SPDX-License-Identifier: Apache-2.0
// A scripted cloister-egress for tests of the node's end: it accepts the node at a socket, and
// keeps the descriptors of the last message.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "linux/message.h"
#include "sandbox/door/doors.h"

namespace cloister::runtime {

class ScriptedEgress {
 public:
  using DoorPacket = wire::egress::DoorPacket;
  using DoorMessage = wire::egress::DoorMessage;

  explicit ScriptedEgress(boost::asio::io_context& io) : io_(io) {
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path().copy(at.sun_path, sizeof at.sun_path - 1);
    listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
  }
  ScriptedEgress(const ScriptedEgress&) = delete;
  ScriptedEgress& operator=(const ScriptedEgress&) = delete;
  ~ScriptedEgress() { std::filesystem::remove_all(dir_); }

  [[nodiscard]] std::string path() const { return dir_ + "/egress-node.sock"; }
  void stopListening() { listener_.reset(); }
  void hangUp() { peer_.reset(); }

  // Runs the node until `done`.
  template <class Done>
  void until(Done done) {
    while (!done())
      async::runTask(io_, tick());
  }
  void acceptNode() {
    until([&] { return acceptNow(); });
  }
  bool acceptNow() {
    peer_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return static_cast<bool>(peer_);
  }
  // The node's next packet; its descriptors are in `fds`.
  DoorPacket packet(size_t count = 0) {
    std::optional<DoorPacket> got;
    until([&] { return (got = packetNow()).has_value(); });
    EXPECT_EQ(fds.size(), count);
    return *got;
  }
  std::optional<DoorPacket> packetNow() {
    std::array<char, wire::egress::kMaxDoorMessage> buffer;
    auto message = linux::receiveMessage(peer_.get(), buffer);
    if (!message) return std::nullopt;
    fds = std::move(message->fds);
    return wire::egress::decodeDoorPacket({buffer.data(), message->size}).value_or(DoorPacket{});
  }
  void say(const std::string& bytes) { EXPECT_TRUE(linux::sendMessage(peer_.get(), bytes)); }
  void say(DoorMessage type, uint64_t door) { say(wire::egress::encodeDoorId(type, door)); }

  std::vector<Fd> fds;

 private:
  Task<bool> tick() {
    boost::asio::steady_timer timer(io_, Millis(1));
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return true;
  }

  boost::asio::io_context& io_;
  std::string dir_ = testing::TempDir() + "doors-XXXXXX";
  Fd listener_;
  Fd peer_;
};

}  // namespace cloister::runtime
