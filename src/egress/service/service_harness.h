// SPDX-License-Identifier: Apache-2.0
// A running service with the ends that a control plane, a node and a sandbox have, over real
// sockets. The sandbox is this process: the synthetic addresses are 127.64.0.0/16, which Linux
// delivers to every listener on 0.0.0.0, so no namespace is needed.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "egress/dns/answers.h"
#include "egress/service/control_harness.h"
#include "linux/message.h"
#include "wire/door_message.h"

namespace cloister::egress {

using wire::egress::DoorMessage;

class ServiceTest : public ControlTest {
 protected:
  // --- the node

  void connectNode() {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    nodePath().copy(at.sun_path, sizeof at.sun_path - 1);
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    node_ = std::make_unique<asio::posix::stream_descriptor>(io_, socket.release());
  }
  asio::awaitable<std::string> readPacket() {
    std::array<char, wire::egress::kMaxDoorMessage> buffer;
    while (true) {
      co_await node_->async_wait(asio::posix::stream_descriptor::wait_read, kQuiet);
      const auto message = linux::receiveMessage(node_->native_handle(), buffer);
      if (message) co_return std::string(buffer.data(), message->size);
      if (message.error().code != Code::kUnavailable) co_return std::string();
    }
  }
  wire::egress::DoorPacket packet() {
    const std::string bytes = run(readPacket());
    return wire::egress::decodeDoorPacket(bytes).value_or(wire::egress::DoorPacket{});
  }
  void openSockets() {
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    ASSERT_EQ(::listen(listener_.get(), 128), 0);
    door_port_ = portOf(listener_);
    dns_ = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(dns_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    dns_port_ = portOf(dns_);
  }
  static uint16_t portOf(const Fd& socket) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size);
    return ntohs(at.sin_port);
  }
  void handOver(uint64_t id, const std::string& sha256) {
    const wire::egress::Door door{.id = id,
                                  .permit = kPermit,
                                  .plan_sha256 = sha256,
                                  .transparent = false,
                                  .listeners = 1,
                                  .has_dns = true,
                                  .has_log = false};
    const int fds[] = {listener_.get(), dns_.get()};
    ASSERT_TRUE(linux::sendMessage(node_->native_handle(), wire::egress::encodeAttach(door), fds));
  }
  // Everything up to a served door under `made`.
  void openDoor(const model::NetworkPlan& made) {
    accept(made);
    handOver(1, base::sha256Hex(model::encodePlan(made)));
    EXPECT_EQ(packet().type, DoorMessage::kAttached);
  }
  void ready() {
    start();
    connectControl();
    connectNode();
    openSockets();
  }

  // --- the sandbox

  // The reply to a look-up over UDP, sent to 127.0.0.2.
  asio::awaitable<std::string> lookUpBytes(std::string name, dns::Type type) {
    asio::ip::udp::socket socket(io_, asio::ip::udp::v4());
    dns::Query query;
    query.id = 7;
    query.recursion_desired = true;
    query.name = dns::toWire(name).value();
    query.type = type;
    query.klass = dns::kClassIn;
    const std::string bytes = dns::encodeQuery(query);
    const asio::ip::udp::endpoint server(asio::ip::make_address("127.0.0.2"), dns_port_);
    co_await socket.async_send_to(asio::buffer(bytes), server, kQuiet);
    std::array<char, 2048> buffer;
    asio::ip::udp::endpoint from;
    const auto [error, size] =
        co_await socket.async_receive_from(asio::buffer(buffer), from, kQuiet);
    EXPECT_EQ(from, server) << "the answer comes from the server that was asked";
    co_return std::string(buffer.data(), size);
  }
  dns::Reply lookUp(const std::string& name, dns::Type type = dns::Type::kA) {
    return dns::readReply(run(lookUpBytes(name, type))).value_or(dns::Reply{dns::Rcode::kFormErr});
  }
  // The synthetic address of a name; fails the test without one.
  asio::ip::address addressOf(const std::string& name) {
    const dns::Reply reply = lookUp(name);
    if (reply.answers.size() != 1 || reply.answers[0].data.size() != 4) {
      ADD_FAILURE() << "no address of " << name;
      return asio::ip::address_v4::loopback();
    }
    asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), reply.answers[0].data.data(), bytes.size());
    return asio::ip::address_v4(bytes);
  }
  // What comes back for "ping"; "" when the connection was refused.
  asio::awaitable<std::string> ping(std::shared_ptr<tcp::socket> socket) {
    std::string bytes = "ping";
    co_await asio::async_write(*socket, asio::buffer(bytes), kQuiet);
    const auto [error, count] = co_await asio::async_read(*socket, asio::buffer(bytes), kQuiet);
    co_return error ? std::string() : bytes;
  }
  asio::awaitable<std::shared_ptr<tcp::socket>> connectTo(asio::ip::address address) {
    const auto socket = std::make_shared<tcp::socket>(io_);
    const tcp::endpoint to(address, door_port_);
    co_await socket->async_connect(to, kQuiet);
    co_return socket;
  }
  // Until the other end closes or resets.
  asio::awaitable<void> untilClosed(std::shared_ptr<tcp::socket> socket) {
    std::array<char, 64> bytes;
    while (true) {
      const auto [error, count] = co_await socket->async_read_some(asio::buffer(bytes), kQuiet);
      if (error) co_return;
    }
  }
  asio::awaitable<void> pause(Millis time) {
    asio::steady_timer timer(io_, time);
    co_await timer.async_wait(kQuiet);
  }

  std::unique_ptr<asio::posix::stream_descriptor> node_;
  Fd listener_;
  Fd dns_;
  uint16_t dns_port_ = 0;
};

}  // namespace cloister::egress
