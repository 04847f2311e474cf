// SPDX-License-Identifier: Apache-2.0
// A running service with the ends that a control plane, a node and a sandbox have, over real
// sockets. The sandbox is this process: the synthetic addresses are 127.64.0.0/16, which Linux
// delivers to every listener on 0.0.0.0, so no namespace is needed.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "egress/dns/answers.h"
#include "egress/service/listen.h"
#include "egress/service/service.h"
#include "linux/message.h"
#include "net/frame_connection.h"
#include "wire/codec.h"
#include "wire/door_message.h"
#include "wire/node.h"
#include "wire/string_writer.h"

namespace cloister::egress {

namespace asio = boost::asio;
using asio::ip::tcp;
using wire::egress::FromEgress;
using wire::egress::ToEgress;
using wire::egress::DoorMessage;

inline constexpr auto kQuiet = asio::as_tuple(asio::use_awaitable);
inline constexpr unsigned kTestSeconds = 30;  // a test that waits longer is killed

class ServiceTest : public testing::Test {
 protected:
  // Runs the service and the ends until the task is done.
  template <class T>
  T run(asio::awaitable<T> task) {
    return async::runTask(io_, std::move(task));
  }
  void run(asio::awaitable<void> task) {
    std::ignore = run([](asio::awaitable<void> inner) -> asio::awaitable<bool> {
      co_await std::move(inner);
      co_return true;
    }(std::move(task)));
  }

  void SetUp() override {
    ::alarm(kTestSeconds);
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    startEcho();
    settings_.pool = "127.64.0.0/16";
    settings_.attach_patience = Millis(200);
  }
  void TearDown() override {
    io_.shutdown();  // coroutines end before the service that they use
    service_.reset();
    std::filesystem::remove_all(dir_);
  }

  void start() {
    ServiceConfig config;
    config.settings = settings_;
    config.resolver.servers = "127.0.0.1:9";
    config.dial.own.emplace("echo.test", tcp::endpoint(asio::ip::address_v4::loopback(), echo_port_));
    config.control_uid = config.node_uid = ::geteuid();
    config.key = [this]() -> Result<base::VerifyKey> { return key_.verifyKey(); };
    config.last_batch = kLastBatch;
    Fd control = listenUnix(controlPath(), SOCK_STREAM).value();
    Fd node = listenUnix(nodePath(), SOCK_SEQPACKET).value();
    service_ = Service::start(io_.get_executor(), std::move(config), std::move(control),
                              std::move(node))
                   .value();
  }
  static constexpr uint64_t kLastBatch = 1000;

  // --- the world

  void startEcho() {
    echo_ = std::make_unique<tcp::acceptor>(io_, tcp::endpoint(tcp::v4(), 0));
    echo_port_ = echo_->local_endpoint().port();
    async::spawn(io_.get_executor(), acceptEchoes());
  }
  asio::awaitable<void> acceptEchoes() {
    while (true) {
      auto [error, socket] = co_await echo_->async_accept(kQuiet);
      if (error) co_return;
      async::spawn(io_.get_executor(), echo(std::move(socket)));
    }
  }
  static asio::awaitable<void> echo(tcp::socket socket) {
    std::array<char, 4096> bytes;
    while (true) {
      const auto [error, count] = co_await socket.async_read_some(asio::buffer(bytes), kQuiet);
      if (error) co_return;
      const auto [broken, sent] =
          co_await asio::async_write(socket, asio::buffer(bytes.data(), count), kQuiet);
      if (broken) co_return;
    }
  }

  // --- the control plane

  [[nodiscard]] std::string controlPath() const { return dir_ + "/egress.sock"; }
  asio::awaitable<std::shared_ptr<net::FrameConnection>> dialControl() {
    asio::local::stream_protocol::socket socket(io_);
    co_await socket.async_connect(asio::local::stream_protocol::endpoint(controlPath()), kQuiet);
    co_return std::make_shared<net::FrameConnection>(std::move(socket));
  }
  void connectControl() {
    control_ = run(dialControl());
    const net::Frame hello = next(FromEgress::kHello);
    EXPECT_EQ(hello.channel, 0U);
  }
  // The next frame of this type; other types are passed over.
  net::Frame next(FromEgress type) {
    while (true) {
      auto frame = run(control_->read(wire::egress::kMaxPayload));
      if (!frame) {
        ADD_FAILURE() << frame.error().message;
        return {};
      }
      if (frame->type == static_cast<uint16_t>(type)) return *std::move(frame);
    }
  }
  void post(ToEgress type, std::string payload, uint32_t channel = 0) {
    control_->post(static_cast<uint16_t>(type), channel, std::move(payload));
  }
  net::Frame ask(ToEgress type, std::string payload) {
    post(type, std::move(payload), ++calls_);
    while (true) {
      auto frame = run(control_->read(wire::egress::kMaxPayload));
      if (!frame) {
        ADD_FAILURE() << frame.error().message;
        return {};
      }
      if (frame->channel == calls_) return *std::move(frame);
    }
  }

  // A plan that allows echo.test on the door's port.
  [[nodiscard]] model::NetworkPlan plan(uint64_t generation = 1) const {
    model::NetworkPlan made;
    made.permit = kPermit;
    made.generation = generation;
    made.tier = "restricted";
    made.tenant = "t";
    made.policy_id = "policy_1";
    model::PlanRule rule;
    rule.entry.name = "echo.test";
    rule.entry.ports = {door_port_};
    rule.entry.protocol = model::Protocol::kTcp;
    rule.rule = "echoes";
    made.rules.push_back(std::move(rule));
    return made;
  }
  static constexpr const char* kPermit = "permit_test";
  [[nodiscard]] model::SignedPlan sign(const model::NetworkPlan& made) const {
    std::string encoded = model::encodePlan(made);
    std::string signature = key_.sign(encoded);
    return {std::move(encoded), std::move(signature)};
  }
  net::Frame send(const model::NetworkPlan& made) {
    return ask(ToEgress::kPlan, wire::egress::encodeSignedPlan(sign(made)));
  }
  void accept(const model::NetworkPlan& made) {
    const net::Frame answer = send(made);
    EXPECT_EQ(answer.type, static_cast<uint16_t>(FromEgress::kPlanned))
        << wire::decodeError(answer.payload).value_or(Error{}).message;
  }
  model::NetworkUse use() {
    const net::Frame answer = ask(ToEgress::kUse, kPermit);
    const auto json = base::parseJson(answer.payload);
    return model::readNetworkUse(json.value().as_object()).value();
  }
  // The next batch with an attempt that fits.
  template <class Fits>
  wire::egress::Attempts attempt(Fits fits) {
    while (true) {
      const auto batch = wire::egress::decodeBatch(next(FromEgress::kAttempts).payload);
      if (!batch) {
        ADD_FAILURE() << batch.error().message;
        return {};
      }
      last_batch_ = batch->number;
      for (const auto& each : batch->attempts) {
        if (fits(each)) return each;
      }
    }
  }

  // --- the node

  [[nodiscard]] std::string nodePath() const { return dir_ + "/egress-node.sock"; }
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
  static std::string u64(uint64_t number) {
    wire::StringWriter writer;
    writer.u64(number);
    return writer.take();
  }

  // Pending handlers end before the objects that they use.
  struct Io : asio::io_context {
    using asio::execution_context::shutdown;
    using asio::io_context::io_context;
  };

  std::string dir_ = testing::TempDir() + "egress-XXXXXX";
  Settings settings_;
  base::SigningKey key_ = base::SigningKey::generate();
  std::unique_ptr<Service> service_;
  Io io_{1};
  std::unique_ptr<tcp::acceptor> echo_;
  uint16_t echo_port_ = 0;
  std::shared_ptr<net::FrameConnection> control_;
  uint32_t calls_ = 0;
  uint64_t last_batch_ = 0;
  std::unique_ptr<asio::posix::stream_descriptor> node_;
  Fd listener_;
  Fd dns_;
  uint16_t door_port_ = 0;
  uint16_t dns_port_ = 0;
};

}  // namespace cloister::egress
