// SPDX-License-Identifier: Apache-2.0
// For tests: sandboxes with a network, and a scripted cloister-egress that gets their doors.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "sandbox/door/doors.h"
#include "sandbox/door/doors_harness.h"
#include "sandbox/host/host.h"
#include "sandbox/process_runtime.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {

// `runtime`: of the permits. `host`: has it, or says why not.
class NetworkTest : public testing::Test {
 protected:
  NetworkTest(std::string runtime, const Result<std::shared_ptr<ProcessHost>>& host)
      : name_(std::move(runtime)), host_(host) {}

  void SetUp() override {
    if (!host_) GTEST_SKIP() << host_.error().message;
    doors_ = std::make_shared<Doors>(
        io_.get_executor(), egress_.path(),
        Doors::Terms{.attach = Millis(10'000), .detach = Millis(10'000), .again = Millis(100)});
    doors_->start();
    NetworkParts network;
    network.doors = doors_;
    runtime_ = makeProcessRuntime(io_.get_executor(), *host_, nullptr, network);
    egress_.acceptNode();
  }
  void TearDown() override {
    runtime_.reset();
    if (host_) EXPECT_EQ(testbed::slotsInUse(**host_), 0U);
  }

  [[nodiscard]] model::SignedPermit permitWithNetwork() const {
    auto fields = *wire::decodePermit(testbed::permit().encoded);
    fields.runtime = name_;
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
  // A sandbox whose door is served, with the door's descriptors in `egress_.fds`.
  Sandbox* served(wire::egress::Door& door) {
    door = asked();
    EXPECT_GT(egress_.fds.size(), 0U);
    EXPECT_EQ(door.plan_sha256, std::string(64, 'a'));
    EXPECT_FALSE(provisioned_) << "before the door is served";
    egress_.say(wire::egress::DoorMessage::kAttached, door.id);
    egress_.until([&] { return provisioned_.has_value(); });
    if (*provisioned_) return (**provisioned_).get();
    ADD_FAILURE() << provisioned_->error().message;
    return nullptr;
  }
  void start(Sandbox& sandbox, std::string script) {
    async::spawn(io_.get_executor(), exec(sandbox, std::move(script)));
  }
  Task<void> exec(Sandbox& sandbox, std::string script) {
    outcome_ = co_await sandbox.exec(testbed::shell(std::move(script)), seen_);
  }
  // The next connection of the program that runs.
  Fd accepted(const wire::egress::Door& door) {
    Fd peer;
    egress_.until([&] {
      for (uint32_t i = 0; i < door.listeners && !peer; ++i)
        peer = Fd(::accept4(egress_.fds[i].get(), nullptr, nullptr, SOCK_CLOEXEC));
      return peer || outcome_;
    });
    return peer;
  }
  static std::string ownEnd(const Fd& peer) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    char text[INET_ADDRSTRLEN] = {};
    if (::getsockname(peer.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return "none";
    ::inet_ntop(AF_INET, &at.sin_addr, text, sizeof text);
    return text + (" " + std::to_string(ntohs(at.sin_port)));
  }
  // Tears down; the sandbox is gone once the other end holds no socket.
  void end(Sandbox& sandbox, const wire::egress::Door& door) {
    async::spawn(io_.get_executor(), teardown(sandbox));
    const auto detach = egress_.packet();
    EXPECT_EQ(detach.type, wire::egress::DoorMessage::kDetach);
    EXPECT_FALSE(torn_down_) << "a socket of the namespace is held";
    egress_.say(wire::egress::DoorMessage::kDetached, door.id);
    egress_.until([&] { return torn_down_; });
    EXPECT_EQ(doors_->size(), 0U);
  }
  Task<void> teardown(Sandbox& sandbox) {
    std::ignore = co_await sandbox.teardown();
    torn_down_ = true;
  }

  const std::string name_;
  const Result<std::shared_ptr<ProcessHost>>& host_;
  boost::asio::io_context io_{1};
  ScriptedEgress egress_{io_};
  std::shared_ptr<Doors> doors_;
  std::unique_ptr<Runtime> runtime_;
  testbed::Recorder seen_;
  std::optional<Result<std::unique_ptr<Sandbox>>> provisioned_;
  std::optional<Result<model::Outcome>> outcome_;
  bool torn_down_ = false;
};

// Prints the first line that it gets at a synthetic address.
inline constexpr char kReadsALine[] =
    "exec bash -c 'exec 3<>/dev/tcp/198.18.0.77/443; read -r line <&3; echo \"$line\"'";

}  // namespace cloister::runtime
