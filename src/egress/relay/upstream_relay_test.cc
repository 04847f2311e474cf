// SPDX-License-Identifier: Apache-2.0
// Connections through a company's proxy that speaks TLS.
#include <gtest/gtest.h>

#include "egress/dial/tls_proxy_testing.h"
#include "egress/relay/relay_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using model::Protocol;

class UpstreamRelay : public RelayTest {
 protected:
  UpstreamRelay() {
    dns.set("proxy.test", {"127.0.0.1"});
    authority_.certify(proxy_.context, "DNS:proxy.test");
    resolver_ = *Resolver::make(io.get_executor(), {.servers = dns.place()});
    DialOptions options;
    options.upstream = *readUpstream("https://proxy.test:" + portText(), "", authority_.path());
    dialler = std::make_unique<Dialler>(io.get_executor(), *resolver_, options);
    guard->plan.tier = "restricted";
    allow(Protocol::kTcp, "far.test").internal = false;
  }

  // What the sandbox receives of a proxy that behaves so, and how it ends.
  std::string receiveFrom(std::function<TlsProxy::Task(TlsProxy::Stream&)> behave,
                          boost::system::error_code& end) {
    proxy_.behave = std::move(behave);
    start(proxy_.serve(origin));
    Socket sandbox = connect("far.test");
    const std::string received = run(receive(sandbox, kAll, &end));
    sandbox.close();
    finish();
    return received;
  }

  TestAuthority authority_;
  TlsProxy proxy_;

 private:
  std::unique_ptr<Resolver> resolver_;
};

TEST_F(UpstreamRelay, PassesAnEndOn) {
  boost::system::error_code end;
  const auto behave = [](TlsProxy::Stream& stream) -> TlsProxy::Task {
    co_await asio::async_write(stream, asio::buffer("whole", 5), kAwait);
    co_await stream.async_shutdown(kAwait);
  };
  EXPECT_EQ(receiveFrom(behave, end), "whole");
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_TRUE(proxy_.request.starts_with("CONNECT far.test:" + portText())) << proxy_.request;
}

TEST_F(UpstreamRelay, AStreamThatBreaksOffIsReset) {
  boost::system::error_code end;
  receiveFrom(
      [](TlsProxy::Stream& stream) -> TlsProxy::Task {
        co_await asio::async_write(stream, asio::buffer("half", 4), kAwait);
        stream.next_layer().close();
      },
      end);
  EXPECT_EQ(end, asio::error::connection_reset);
}

}  // namespace
}  // namespace cloister::egress
