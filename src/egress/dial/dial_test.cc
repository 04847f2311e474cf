// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/dial.h"

#include <filesystem>
#include <fstream>

#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "egress/dial/dns_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Network;

class DialTest : public testing::Test {
 protected:
  DialTest() {
    resolver_ = *Resolver::make(io_.get_executor(), {.servers = dns_.place()});
    dns_.set("local.test", {"127.0.0.1"});
  }

  uint16_t port() { return listener_.local_endpoint().port(); }
  Target internal(const std::string& name) {
    return {.name = name,
            .port = port(),
            .internal = true,
            .networks = {*Network::parse("127.0.0.0/8")},
            .wanted = {}};
  }
  Result<Dialled> dial(Target target, DialOptions options = {}) {
    Dialler dialler(io_.get_executor(), *resolver_, std::move(options));
    return async::runTask(io_, dialler.dial(std::move(target)));
  }
  // Whether anybody connected to the listener.
  bool sawConnection() {
    listener_.non_blocking(true);
    boost::system::error_code error;
    tcp::socket peer(io_);
    listener_.accept(peer, error);
    return !error;
  }

  asio::io_context io_;
  DnsServer dns_{io_};
  tcp::acceptor listener_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::unique_ptr<Resolver> resolver_;
};

TEST_F(DialTest, ConnectsToAnInternalName) {
  auto dialled = dial(internal("local.test"));
  ASSERT_TRUE(dialled) << dialled.error().message;
  EXPECT_EQ(dialled->address, "127.0.0.1");
  EXPECT_EQ(dialled->socket.remote_endpoint().port(), port());
  EXPECT_TRUE(sawConnection());
}

TEST_F(DialTest, RefusesAPrivateAddressOfAPublicName) {
  Target target = internal("local.test");
  target.internal = false;  // its networks no longer count
  const auto dialled = dial(std::move(target));
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Code::kDenied);
  EXPECT_TRUE(dialled.error().message.contains("127.0.0.1")) << dialled.error().message;
  EXPECT_FALSE(sawConnection());
}

TEST_F(DialTest, RefusesAMixedAnswer) {
  for (const char* bad : {"169.254.169.254", "10.0.0.1", "::1", "64:ff9b::7f00:1"}) {
    dns_.set("mixed.test", {"127.0.0.1", bad}, 0);
    const auto dialled = dial(internal("mixed.test"));
    ASSERT_FALSE(dialled) << bad;
    EXPECT_EQ(dialled.error().code, Code::kDenied);
  }
  EXPECT_FALSE(sawConnection());
}

TEST_F(DialTest, ChecksEachAnswerAnew) {
  dns_.set("flip.test", {"127.0.0.1"}, 0);
  EXPECT_TRUE(dial(internal("flip.test")));
  dns_.set("flip.test", {"169.254.169.254"}, 0);
  EXPECT_EQ(dial(internal("flip.test")).error().code, Code::kDenied);
}

TEST_F(DialTest, TriesTheNextAddress) {
  dns_.set("two.test", {"127.0.0.9", "127.0.0.1"});
  const auto dialled = dial(internal("two.test"));
  ASSERT_TRUE(dialled) << dialled.error().message;
  EXPECT_EQ(dialled->address, "127.0.0.1");
  EXPECT_FALSE(dial(internal("two.test"), {.addresses = {}, .most_addresses = 1}));
}

TEST_F(DialTest, StopsWhenTheRulesChanged) {
  Target target = internal("local.test");
  target.wanted = [] { return false; };
  EXPECT_EQ(dial(std::move(target)).error().code, Code::kConflict);
  EXPECT_FALSE(sawConnection());
}

TEST_F(DialTest, NamesTheCause) {
  listener_.close();
  tcp::acceptor closed(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const uint16_t gone = closed.local_endpoint().port();
  closed.close();
  Target target{.name = "local.test",
                .port = gone,
                .internal = true,
                .networks = {*Network::parse("127.0.0.1")},
                .wanted = {}};
  const auto dialled = dial(std::move(target));
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Code::kUnavailable);
  EXPECT_TRUE(dialled.error().message.contains("local.test:" + std::to_string(gone)));
  EXPECT_EQ(dial({.name = "none.test", .port = 80, .wanted = {}}).error().code, Code::kNotFound);
}

TEST_F(DialTest, ReachesTheServicesOwnName) {
  DialOptions options;
  options.own["api.cloister.internal"] = listener_.local_endpoint();
  EXPECT_TRUE(dial({.name = "api.cloister.internal", .port = 80, .wanted = {}}, options));
  EXPECT_TRUE(sawConnection());
  EXPECT_TRUE(dns_.asked().empty());
}

TEST_F(DialTest, RefusesTheHostsOwnAndSyntheticAddresses) {
  dns_.set("own.test", {"198.51.100.9"});
  dns_.set("pool.test", {"28.0.0.7"});
  DialOptions options;
  options.addresses.isOurs = [](const base::Address& at) { return at.text() == "198.51.100.9"; };
  options.addresses.pool = *Network::parse("28.0.0.0/8");
  for (const char* name : {"own.test", "pool.test"}) {
    const auto dialled = dial({.name = name, .port = 80}, options);
    EXPECT_EQ(dialled.error().code, Code::kDenied) << name;
  }
}

// An address that accepts nobody: its queue is full, so the kernel drops further SYNs.
class DeafTest : public DialTest {
 protected:
  DeafTest() {
    deaf_.open(tcp::v4());
    deaf_.bind({asio::ip::make_address("127.0.0.5"), port()});
    deaf_.listen(0);
    first_.connect(deaf_.local_endpoint());
  }

  tcp::acceptor deaf_{io_};
  tcp::socket first_{io_};
};

TEST_F(DeafTest, AnAddressHasABoundedTime) {
  dns_.set("two.test", {"127.0.0.5", "127.0.0.1"});
  const auto dialled = dial(internal("two.test"), {.try_time = Millis(100)});
  ASSERT_TRUE(dialled) << dialled.error().message;
  EXPECT_EQ(dialled->address, "127.0.0.1");
}

TEST_F(DeafTest, ADialHasABoundedTime) {
  dns_.set("deaf.test", {"127.0.0.5"});
  const auto before = base::monotonicNow();
  const auto dialled = dial(internal("deaf.test"), {.most_time = Millis(100)});
  ASSERT_FALSE(dialled);
  EXPECT_TRUE(dialled.error().message.contains("no answer in time")) << dialled.error().message;
  EXPECT_LT(base::monotonicNow() - before, Millis(3'000));
}

// --- through a proxy

class UpstreamTest : public DialTest {
 protected:
  struct Proxy {
    std::string answer;
    std::string request = {};
  };

  static asio::awaitable<void> serve(tcp::acceptor& listener, Proxy& proxy) {
    tcp::socket peer = co_await listener.async_accept(asio::use_awaitable);
    co_await asio::async_read_until(peer, asio::dynamic_buffer(proxy.request), "\r\n\r\n",
                                    asio::use_awaitable);
    co_await asio::async_write(peer, asio::buffer(proxy.answer), asio::use_awaitable);
  }

  Result<Dialled> dialThrough(Proxy& proxy, const std::string& authorization = "") {
    async::spawn(io_.get_executor(), serve(listener_, proxy));
    DialOptions options;
    options.upstream = Upstream{"127.0.0.1", port(), authorization};
    return dial({.name = "far.test", .port = 443, .wanted = {}}, std::move(options));
  }
};

TEST_F(UpstreamTest, AsksTheProxyForANameAndResolvesNothing) {
  Proxy proxy{"HTTP/1.1 200 OK\r\nVia: 1.1 corp\r\n\r\nearly"};
  const auto dialled = dialThrough(proxy, "Basic dTpw");
  ASSERT_TRUE(dialled) << dialled.error().message;
  EXPECT_EQ(proxy.request,
            "CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n"
            "Proxy-Authorization: Basic dTpw\r\n\r\n");
  EXPECT_EQ(dialled->early, "early");
  EXPECT_EQ(dialled->address, "127.0.0.1:" + std::to_string(port()));
  EXPECT_TRUE(dns_.asked().empty());
}

TEST_F(UpstreamTest, PassesOnTheProxysRefusal) {
  Proxy proxy{"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"};
  const auto dialled = dialThrough(proxy);
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Code::kUnavailable);
  EXPECT_TRUE(dialled.error().message.contains("407 Proxy Authentication Required"));
  EXPECT_FALSE(proxy.request.contains("Proxy-Authorization"));
}

TEST_F(UpstreamTest, RefusesAnotherProtocol) {
  for (const std::string& answer : {std::string("SSH-2.0-x\r\n\r\n"),
                                    std::string("HTTP/1.1 2xx\r\n\r\n"), std::string(9000, 'x')}) {
    Proxy proxy{answer};
    EXPECT_FALSE(dialThrough(proxy)) << answer.substr(0, 20);
  }
}

TEST_F(UpstreamTest, InternalNamesNeverTakeTheProxy) {
  DialOptions options;
  options.upstream = Upstream{"127.0.0.1", 1, ""};
  EXPECT_TRUE(dial(internal("local.test"), std::move(options)));
}

TEST(ReadUpstream, ReadsPlaceAndCredentials) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("upstream_" + std::to_string(::getpid()));
  std::ofstream(path) << "user:password\n";
  const auto upstream = readUpstream("http://proxy.corp.test:3128/", path);
  ASSERT_TRUE(upstream);
  EXPECT_EQ(upstream->host, "proxy.corp.test");
  EXPECT_EQ(upstream->port, 3128);
  EXPECT_EQ(upstream->authorization, "Basic dXNlcjpwYXNzd29yZA==");
  std::ofstream(path) << "user:password\r\nInjected: 1";
  EXPECT_FALSE(readUpstream("http://proxy.corp.test:3128", path));
  std::filesystem::remove(path);
  EXPECT_FALSE(readUpstream("http://proxy.corp.test:3128", path));
  EXPECT_EQ(readUpstream("http://[::1]:3128", "")->host, "::1");
}

TEST(ReadUpstream, ReadsTheAuthoritiesOfHttpsAlone) {
  EXPECT_FALSE(readUpstream("http://proxy.corp.test:3128", "", "/nonexistent")->tls);
  EXPECT_TRUE(readUpstream("https://proxy.corp.test:3128", "")->tls);
  for (const char* file : {"/nonexistent", "/dev/null"}) {
    const auto upstream = readUpstream("https://proxy.corp.test:3128", "", file);
    ASSERT_FALSE(upstream) << file;
    EXPECT_EQ(upstream.error().field, "egress.ca_file");
    EXPECT_TRUE(upstream.error().message.starts_with("egress.ca_file: "));
  }
}

TEST(ReadUpstream, RefusesOtherUrls) {
  for (const char* url :
       {"", "proxy:3128", "ftp://proxy:3128", "https://proxy", "http://proxy", "http://proxy:0",
        "http://proxy:x", "http://proxy:65536", "http://u:p@proxy:3128", "http://proxy:3128/path",
        "http://:3128", "http://a b:3128", "http://::1:3128", "http://proxy:3128?x"})
    EXPECT_FALSE(readUpstream(url, "")) << url;
}

}  // namespace
}  // namespace cloister::egress
