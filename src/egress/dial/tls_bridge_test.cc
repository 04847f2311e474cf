// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/tls_bridge.h"

#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "egress/dial/dns_testing.h"
#include "egress/dial/tls_proxy_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Stream = TlsProxy::Stream;
constexpr auto kQuiet = asio::as_tuple(asio::use_awaitable);

class TlsBridge : public testing::Test {
 protected:
  TlsBridge() {
    resolver_ = *Resolver::make(io_.get_executor(), {.servers = dns_.place()});
    dns_.set("proxy.test", {"127.0.0.1"});
    authority_.certify(proxy_.context, "DNS:proxy.test");
  }

  // Dials far.test through https://proxy.test, which the authority must have certified.
  Result<Dialled> dial(const std::string& authority, Millis most_time = Millis(10'000),
                       const std::string& host = "proxy.test") {
    const std::string port = std::to_string(listener_.local_endpoint().port());
    DialOptions options;
    options.upstream = *readUpstream("https://" + host + ":" + port, "", authority);
    options.most_time = most_time;
    Dialler dialler(io_.get_executor(), *resolver_, options);
    return async::runTask(io_, dialler.dial({.name = "far.test", .port = 443, .wanted = {}}));
  }
  Result<Dialled> dial() {
    async::spawn(io_.get_executor(), proxy_.serve(listener_));
    return dial(authority_.path());
  }
  // The message of the refused dial.
  std::string refusal(const std::string& authority, const std::string& host = "proxy.test") {
    async::spawn(io_.get_executor(), proxy_.serve(listener_));
    const auto dialled = dial(authority, Millis(10'000), host);
    EXPECT_FALSE(dialled);
    if (dialled) return "";
    EXPECT_EQ(dialled.error().code, Code::kUnavailable);
    EXPECT_TRUE(proxy_.request.empty()) << "credentials would be in it";
    return dialled.error().message;
  }
  bool runUntil(const std::function<bool()>& condition, Millis time = Millis(8'000)) {
    const auto end = base::monotonicNow() + time;
    while (!condition() && base::monotonicNow() < end) {
      io_.restart();
      io_.run_for(Millis(10));
    }
    return condition();
  }
  // All bytes until the end.
  std::string receive(tcp::socket& from, Error& error) {
    return async::runTask(io_, [](tcp::socket& socket, Error& end) -> asio::awaitable<std::string> {
      std::string bytes;
      size_t count = 0;
      std::tie(end, count) = co_await asio::async_read(socket, asio::dynamic_buffer(bytes), kQuiet);
      co_return bytes;
    }(from, error));
  }
  void send(tcp::socket& to, const std::string& bytes) {
    const bool sent = async::runTask(
        io_, [](tcp::socket& socket, const std::string& all) -> asio::awaitable<bool> {
          const auto [error, count] = co_await asio::async_write(socket, asio::buffer(all), kQuiet);
          co_return !error;
        }(to, bytes));
    EXPECT_TRUE(sent);
  }

  asio::io_context io_;
  DnsServer dns_{io_};
  tcp::acceptor listener_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  TestAuthority authority_;
  TlsProxy proxy_;
  std::unique_ptr<Resolver> resolver_;
};

TEST_F(TlsBridge, AsksAProxyOfTheAuthorityForANameAndPassesEndsOn) {
  std::string arrived;
  proxy_.behave = [&arrived](Stream& stream) -> TlsProxy::Task {
    co_await asio::async_read(stream, asio::dynamic_buffer(arrived), kQuiet);  // until the end
    co_await asio::async_write(stream, asio::buffer("answer", 6), kQuiet);
    co_await stream.async_shutdown(kQuiet);
  };
  auto dialled = dial();
  ASSERT_TRUE(dialled) << dialled.error().message;
  EXPECT_EQ(proxy_.request, "CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n");
  EXPECT_TRUE(dialled->address.starts_with("proxy.test:")) << dialled->address;
  const std::string sent(300'000, 'q');
  send(dialled->socket, sent);
  dialled->socket.shutdown(tcp::socket::shutdown_send);
  Error end;
  EXPECT_EQ(receive(dialled->socket, end), "answer");
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_FALSE(*dialled->broken);
  EXPECT_TRUE(arrived == sent) << arrived.size();
}

TEST_F(TlsBridge, ATunnelThatBreaksOffIsNoEnd) {
  proxy_.behave = [](Stream& stream) -> TlsProxy::Task {
    co_await asio::async_write(stream, asio::buffer("half", 4), kQuiet);
    stream.next_layer().close();  // without close_notify
  };
  auto dialled = dial();
  ASSERT_TRUE(dialled) << dialled.error().message;
  Error end;
  EXPECT_EQ(dialled->early + receive(dialled->socket, end), "half");
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_TRUE(*dialled->broken);
}

TEST_F(TlsBridge, EndsWithTheRelaysSocket) {
  proxy_.behave = [](Stream& stream) -> TlsProxy::Task {
    std::string rest;
    co_await asio::async_read(stream, asio::dynamic_buffer(rest), kQuiet);
    EXPECT_EQ(rest, "last words");
  };
  auto dialled = dial();
  ASSERT_TRUE(dialled) << dialled.error().message;
  send(dialled->socket, "last words");
  const std::weak_ptr<const bool> bridge = dialled->broken;
  dialled->socket.close();
  dialled->broken.reset();
  EXPECT_TRUE(runUntil([&] { return proxy_.done && bridge.expired(); }));
}

TEST_F(TlsBridge, AReceiverThatTakesNothingStopsTheSender) {
  constexpr size_t kMost = size_t{24} << 20;  // far beyond the buffers of the kernel
  listener_.set_option(asio::socket_base::receive_buffer_size(64 << 10));
  bool over = false;
  proxy_.behave = [&over](Stream& stream) -> TlsProxy::Task {
    asio::steady_timer timer(stream.get_executor());
    while (!over) {
      timer.expires_after(Millis(10));
      co_await timer.async_wait(kQuiet);
    }
  };
  auto dialled = dial();
  ASSERT_TRUE(dialled) << dialled.error().message;
  dialled->socket.non_blocking(true);
  const std::string piece(size_t{64} << 10, 'x');
  size_t sent = 0;
  int blocked = 0;
  while (sent < kMost && blocked < 30) {
    Error error;
    sent += dialled->socket.write_some(asio::buffer(piece), error);
    blocked = error == asio::error::would_block ? blocked + 1 : 0;
    io_.restart();
    io_.run_for(Millis(error ? 10 : 1));
  }
  EXPECT_LT(sent, kMost);
  over = true;
  EXPECT_TRUE(runUntil([&] { return proxy_.done; }));
}

TEST_F(TlsBridge, RefusesACertificateForAnotherName) {
  dns_.set("other.test", {"127.0.0.1"});
  const std::string message = refusal(authority_.path(), "other.test");
  EXPECT_TRUE(message.contains("egress.upstream: TLS: ")) << message;
  EXPECT_TRUE(message.contains("it is not for other.test")) << message;
}

TEST_F(TlsBridge, RefusesAnotherAuthority) {
  const TestAuthority other;
  for (const std::string& authority : {other.path(), std::string()}) {  // "": the system's
    const std::string message = refusal(authority);
    EXPECT_TRUE(message.contains("egress.upstream: TLS: ")) << message;
    EXPECT_TRUE(message.contains("certificate")) << message;
  }
}

TEST_F(TlsBridge, RefusesAProxyWithoutTls) {
  async::spawn(io_.get_executor(), [](tcp::acceptor& listener) -> asio::awaitable<void> {
    tcp::socket peer = co_await listener.async_accept(asio::use_awaitable);
    std::string hello(1, '\0');
    co_await asio::async_read(peer, asio::buffer(hello), kQuiet);
    const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    co_await asio::async_write(peer, asio::buffer(answer), kQuiet);
  }(listener_));
  const auto dialled = dial(authority_.path());
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Code::kUnavailable);
  EXPECT_TRUE(dialled.error().message.contains("egress.upstream: TLS: "))
      << dialled.error().message;
}

TEST_F(TlsBridge, AHandshakeHasABoundedTime) {
  const auto dialled = dial(authority_.path(), Millis(200));  // nobody answers
  ASSERT_FALSE(dialled);
  EXPECT_TRUE(dialled.error().message.contains("TLS: no answer in time"))
      << dialled.error().message;
}

}  // namespace
}  // namespace cloister::egress
