// SPDX-License-Identifier: Apache-2.0
// A running service with the end of a control plane, over real sockets, and a host that
// echoes.
#pragma once

#include <sys/socket.h>
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
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "egress/service/listen.h"
#include "egress/service/service.h"
#include "net/frame_connection.h"
#include "net/unix_stream.h"
#include "wire/codec.h"
#include "wire/egress.h"
#include "wire/node.h"
#include "wire/string_writer.h"

namespace cloister::egress {

namespace asio = boost::asio;
using asio::ip::tcp;
using wire::egress::FromEgress;
using wire::egress::ToEgress;

inline constexpr auto kQuiet = asio::as_tuple(asio::use_awaitable);
inline constexpr unsigned kTestSeconds = 30;  // a test that waits longer is killed

class ControlTest : public testing::Test {
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
    io_.shutdown();  // coroutines end before the service
    service_.reset();
    std::filesystem::remove_all(dir_);
    ::alarm(0);
  }

  void start() {
    ServiceConfig config;
    config.settings = settings_;
    config.resolver.servers = "127.0.0.1:9";
    config.dial.own.emplace("echo.test",
                            tcp::endpoint(asio::ip::address_v4::loopback(), echo_port_));
    config.control_uid = config.node_uid = ::geteuid();
    config.key = [this]() -> Result<base::VerifyKey> { return key_.verifyKey(); };
    config.last_batch = kLastBatch;
    Fd control = listenUnix(controlPath(), SOCK_STREAM).value();
    Fd node = listenUnix(nodePath(), SOCK_SEQPACKET).value();
    service_ =
        Service::start(io_.get_executor(), std::move(config), std::move(control), std::move(node))
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

  [[nodiscard]] std::string nodePath() const { return dir_ + "/egress-node.sock"; }

  // --- the control plane

  [[nodiscard]] std::string controlPath() const { return dir_ + "/egress.sock"; }
  asio::awaitable<std::shared_ptr<net::FrameConnection>> dialControl() {
    co_return std::make_shared<net::FrameConnection>(
        (co_await net::connectUnix(controlPath())).value());
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

  static std::string u64(uint64_t number) {
    wire::StringWriter writer;
    writer.u64(number);
    return writer.take();
  }

  // Pending handlers end before their objects.
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
  uint16_t door_port_ = 0;
};

}  // namespace cloister::egress
