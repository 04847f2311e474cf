// SPDX-License-Identifier: Apache-2.0
// RelayTest: a sandbox's connection, a relay, a DNS server and an origin, all over real sockets of
// loopback on one io_context. The plan grants names of the tier internal, whose addresses may be
// those of loopback.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "egress/dial/dns_testing.h"
#include "egress/relay/proxy.h"
#include "egress/relay/relay.h"

namespace cloister::egress {

class FakeGuard final : public Guard {
 public:
  explicit FakeGuard(const boost::asio::any_io_executor& executor) : changed_(executor) {}

  Verdict judge(const Attempt& attempt) override { return egress::judge(plan, attempt); }
  bool takeRequest() override { return requests-- > 0; }
  bool count(uint64_t in, uint64_t out) override {
    bytes_in += in;
    bytes_out += out;
    return bytes_in + bytes_out <= most_bytes;
  }
  void dialled(const std::string& address) override { addresses.push_back(address); }
  void refused(const Attempt& attempt, const Verdict& verdict) override {
    EXPECT_FALSE(verdict.reason.empty());
    EXPECT_FALSE(verdict.remedy.empty());
    refusals.push_back(std::string(attempt.host) + ":" + std::to_string(attempt.port) + " " +
                       verdict.reason +
                       (verdict.rule == nullptr ? "" : " (" + verdict.rule->rule + ")"));
  }
  void found(const Attempt& attempt, std::string_view rule, uint64_t count) override {
    notes.push_back(std::string(attempt.host) + " " + std::string(rule) + " " +
                    std::to_string(count));
  }
  async::Signal& changed() override { return changed_; }
  [[nodiscard]] bool cut() const override { return is_cut; }
  Task<Verdict> hold(const Attempt& attempt, Verdict verdict) override {
    ++held;
    if (approve) approve(plan);
    co_return approve ? judge(attempt) : verdict;
  }
  [[nodiscard]] std::vector<base::Network> internalNetworks() const override {
    return {*base::Network::parse("127.0.0.0/8")};
  }

  [[nodiscard]] std::shared_ptr<Authority> authority() const override { return issuer; }
  [[nodiscard]] std::shared_ptr<const Broker> broker() const override { return secrets; }

  // Puts another plan in force.
  void change(const std::function<void(model::NetworkPlan&)>& change) {
    change(plan);
    changed_.notify();
  }

  model::NetworkPlan plan;
  std::function<void(model::NetworkPlan&)> approve;  // what an approver grants
  int64_t requests = 1000;
  uint64_t most_bytes = UINT64_MAX;
  bool is_cut = false;
  int held = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  std::vector<std::string> addresses;
  std::vector<std::string> refusals;
  std::vector<std::string> notes;  // of DLP rules
  std::shared_ptr<Authority> issuer;
  std::shared_ptr<const Broker> secrets;

 private:
  async::Signal changed_;
};

class RelayTest : public testing::Test {
 protected:
  using tcp = boost::asio::ip::tcp;
  using Socket = tcp::socket;
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

  RelayTest() {
    guard->plan.tier = "internal";
    resolver_ = *Resolver::make(io.get_executor(), {.servers = dns.place()});
    dialWith({});
    dns.set("origin.test", {"127.0.0.1"});
    // A test that waits for what never comes fails instead.
    patience_.expires_after(std::chrono::seconds(30));
    patience_.async_wait([](boost::system::error_code error) {
      if (!error) std::abort();
    });
  }

  void dialWith(DialOptions options) {
    dialler = std::make_unique<Dialler>(io.get_executor(), *resolver_, std::move(options));
  }

  [[nodiscard]] uint16_t port() const { return origin.local_endpoint().port(); }
  [[nodiscard]] std::string portText() const { return std::to_string(port()); }

  // A rule for the origin's port.
  model::PlanRule& allow(model::Protocol protocol, const std::string& name = "origin.test") {
    model::PlanRule rule;
    rule.entry.name = name;
    rule.entry.ports = {port()};
    rule.entry.protocol = protocol;
    rule.rule = "rule-" + std::to_string(guard->plan.rules.size());
    rule.internal = true;
    return guard->plan.rules.emplace_back(std::move(rule));
  }

  // The sandbox's end of a connection to the name, which is relayed.
  Socket connect(const std::string& name = "origin.test", std::optional<uint16_t> to = {}) {
    auto [sandbox, inside] = pair();
    start(relay({std::move(inside), name, to ? *to : port()}, guard, *dialler, limits));
    return std::move(sandbox);
  }
  Socket connectToProxy() {
    auto [sandbox, inside] = pair();
    start(proxy({std::move(inside), std::string(kProxyName), kProxyPort}, guard, *dialler, limits));
    return std::move(sandbox);
  }
  std::pair<Socket, Socket> pair() {
    tcp::acceptor listener(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    Socket sandbox(io);
    sandbox.connect(listener.local_endpoint());
    return {std::move(sandbox), listener.accept()};
  }
  void start(Task<void> relaying) {
    ++running;
    async::spawn(io.get_executor(), [](Task<void> inner, int& count) -> Task<void> {
      co_await std::move(inner);
      --count;
    }(std::move(relaying), running));
  }

  template <class T>
  T run(Task<T> task) {
    return async::runTask(io, std::move(task));
  }
  void run(Task<void> task) {
    async::runTask(io, [](Task<void> inner) -> Task<bool> {
      co_await std::move(inner);
      co_return true;
    }(std::move(task)));
  }
  // Runs until no relay runs.
  void finish() {
    while (running > 0 && io.run_one() > 0) {
    }
  }

  Task<Socket> accept() { co_return co_await origin.async_accept(boost::asio::use_awaitable); }
  [[nodiscard]] bool sawConnection() {
    origin.non_blocking(true);
    boost::system::error_code error;
    Socket peer(io);
    origin.accept(peer, error);
    return !error;
  }
  static Task<void> send(Socket& to, std::string bytes) {
    co_await boost::asio::async_write(to, boost::asio::buffer(bytes), kAwait);
  }
  // Until `count` bytes, or the end, whose cause is then in `error`.
  static Task<std::string> receive(Socket& from, size_t count,
                                   boost::system::error_code* error = nullptr) {
    std::string bytes;
    while (bytes.size() < count) {
      const size_t have = bytes.size();
      bytes.resize(count);
      const auto [failed, got] = co_await from.async_read_some(
          boost::asio::buffer(bytes.data() + have, count - have), kAwait);
      bytes.resize(have + got);
      if (!failed) continue;
      if (error != nullptr) *error = failed;
      break;
    }
    co_return bytes;
  }
  // Until the text, or the end.
  static Task<std::string> receiveUntil(Socket& from, std::string text) {
    std::string bytes;
    while (!bytes.contains(text)) {
      const std::string next = co_await receive(from, 1);
      if (next.empty()) break;
      bytes += next;
    }
    co_return bytes;
  }
  static constexpr size_t kAll = size_t{1} << 20;

  // A DLP rule over requests.
  void search(const std::string& pattern, redact::RuleAction action) {
    limits.dlp = *redact::Rules::make({{"card", pattern, action}}, 64);
  }

  std::string refusalsText() const {
    std::string all;
    for (const std::string& refusal : guard->refusals)
      all += refusal + "\n";
    return all;
  }

  boost::asio::io_context io;
  DnsServer dns{io};
  tcp::acceptor origin{io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  std::shared_ptr<FakeGuard> guard = std::make_shared<FakeGuard>(io.get_executor());
  RelayLimits limits;
  std::unique_ptr<Dialler> dialler;
  int running = 0;

 private:
  std::unique_ptr<Resolver> resolver_;
  boost::asio::steady_timer patience_{io};
};

}  // namespace cloister::egress
