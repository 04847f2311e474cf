// SPDX-License-Identifier: Apache-2.0
// Look-ups of a sandbox over TCP, and look-ups with a resolver.
#include "egress/service/door_dns.h"

#include <unistd.h>

#include <array>
#include <string>
#include <tuple>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "egress/dial/dns_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kNothrow = asio::as_tuple(asio::use_awaitable);

class DoorDnsTest : public testing::Test {
 protected:
  void SetUp() override {
    constexpr unsigned kSeconds = 30;
    ::alarm(kSeconds);
    auto plan = std::make_shared<PlanInForce>();
    plan->plan.permit = "permit_1";
    model::PlanRule rule;
    rule.rule = "texts";
    rule.entry.name = "known.test";
    rule.entry.ports = {443};
    rule.entry.dns = {"TXT"};
    plan->plan.rules.push_back(rule);
    permit_->set(plan, nullptr);
  }
  void TearDown() override {
    io_.shutdown();
    ::alarm(0);
  }

  static std::string query(const std::string& name, dns::Type type) {
    dns::Query asked;
    asked.id = 7;
    asked.name = dns::toWire(name).value();
    asked.type = type;
    asked.klass = dns::kClassIn;
    return dns::encodeQuery(asked);
  }
  static std::string framed(const std::string& bytes) {
    return std::string{static_cast<char>(bytes.size() >> 8U), static_cast<char>(bytes.size())} +
           bytes;
  }
  // A connection to the look-ups.
  std::shared_ptr<tcp::socket> connect() {
    const auto client = std::make_shared<tcp::socket>(io_);
    client->connect(acceptor_.local_endpoint());
    async::spawn(io_.get_executor(), DoorDns::serveTcp(dns_, acceptor_.accept()));
    return client;
  }
  static Task<std::string> readReply(std::shared_ptr<tcp::socket> socket) {
    std::array<unsigned char, 2> length{};
    const auto [error, got] = co_await asio::async_read(*socket, asio::buffer(length), kNothrow);
    if (error) co_return std::string();
    std::string bytes(size_t{length[0]} << 8U | length[1], '\0');
    const auto [cut, all] = co_await asio::async_read(*socket, asio::buffer(bytes), kNothrow);
    co_return cut ? std::string() : bytes;
  }
  dns::Reply reply(const std::shared_ptr<tcp::socket>& socket) {
    const std::string bytes = async::runTask(io_, readReply(socket));
    return dns::readReply(bytes).value_or(dns::Reply{.code = dns::Rcode::kFormErr});
  }
  bool closed(const std::shared_ptr<tcp::socket>& socket) {
    return async::runTask(io_, readReply(socket)).empty();
  }

  struct Io : asio::io_context {
    using asio::execution_context::shutdown;
    using asio::io_context::io_context;
  };

  Io io_{1};
  DnsServer server_{io_};
  Settings settings_;
  Record record_{1000, 0};
  std::unique_ptr<Resolver> resolver_ =
      Resolver::make(io_.get_executor(), ResolverOptions{.servers = server_.place()}).value();
  Dialler dialler_{io_.get_executor(), *resolver_, DialOptions{}};
  Hub hub_{.executor = io_.get_executor(),
           .settings = settings_,
           .record = record_,
           .want = [](const wire::egress::Wanted&) {},
           .dialler = dialler_,
           .resolver = *resolver_};
  std::shared_ptr<PermitState> permit_ =
      std::make_shared<PermitState>(io_.get_executor(), "permit_1", settings_);
  std::shared_ptr<DoorLife> life_ = std::make_shared<DoorLife>(io_.get_executor());
  std::shared_ptr<DoorDns> dns_ = std::make_shared<DoorDns>(
      hub_, permit_, life_, Names::make(base::Network::parse("198.18.0.0/15").value()).value());
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

TEST_F(DoorDnsTest, SeveralQueriesOfOneConnectionAreAnsweredInOrder) {
  const auto client = connect();
  asio::write(*client, asio::buffer(framed(query("known.test", dns::Type::kA)) +
                                    framed(query("evil.test", dns::Type::kA))));
  EXPECT_EQ(reply(client).answers.size(), 1U);
  EXPECT_EQ(reply(client).code, dns::Rcode::kNxDomain);
  EXPECT_EQ(life_->connections, 1U);
  client->close();
}

TEST_F(DoorDnsTest, MalformedConnectionsAreClosed) {
  const std::string zero(2, '\0');
  const std::string huge = {'\xff', '\xff'};
  for (const std::string& bytes : {zero, huge, framed("x")}) {
    const auto client = connect();
    asio::write(*client, asio::buffer(bytes));
    EXPECT_TRUE(closed(client));
  }
  EXPECT_EQ(life_->connections, 0U);
}

TEST_F(DoorDnsTest, ConnectionsAreBounded) {
  std::vector<std::shared_ptr<tcp::socket>> open;
  for (size_t i = 0; i < DoorDns::kMostTcp; ++i)
    open.push_back(connect());
  EXPECT_TRUE(closed(connect()));
  asio::write(*open.back(), asio::buffer(framed(query("known.test", dns::Type::kA))));
  EXPECT_EQ(reply(open.back()).answers.size(), 1U);
}

TEST_F(DoorDnsTest, ATypeThatARuleNamesIsAskedOfTheResolverAndRecorded) {
  server_.set("known.test", {"198.51.100.1"});
  const auto client = connect();
  asio::write(*client, asio::buffer(framed(query("known.test", dns::Type::kTxt))));
  EXPECT_EQ(reply(client).code, dns::Rcode::kNoError);
  ASSERT_TRUE(record_.close());
  const auto& attempts = record_.kept().front().attempts;
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_TRUE(attempts[0].allowed);
  EXPECT_EQ(attempts[0].host, "known.test");
  EXPECT_EQ(attempts[0].transport, "dns");
  EXPECT_EQ(attempts[0].rule, "texts");
}

TEST_F(DoorDnsTest, WithoutALedgerNothingIsAskedOfTheResolver) {
  server_.set("known.test", {"198.51.100.1"});
  record_.stop(true);
  const auto client = connect();
  asio::write(*client, asio::buffer(framed(query("known.test", dns::Type::kTxt))));
  EXPECT_EQ(reply(client).code, dns::Rcode::kServFail);
}

}  // namespace
}  // namespace cloister::egress
