// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/relay.h"

#include <unistd.h>

#include <fstream>
#include <numeric>

#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <gtest/gtest.h>

#include "egress/relay/relay_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using model::Protocol;
using namespace asio::experimental::awaitable_operators;

class TcpRelay : public RelayTest {
 protected:
  // The error that the sandbox sees, and the bytes before it.
  std::string end(Socket& sandbox, boost::system::error_code& error) {
    std::string bytes = run(receive(sandbox, kAll, &error));
    sandbox.close();
    finish();
    return bytes;
  }
  std::string end(Socket& sandbox) {
    boost::system::error_code error;
    end(sandbox, error);
    return error == asio::error::eof                ? "end"
           : error == asio::error::connection_reset ? "reset"
                                                    : error.message();
  }
};

TEST_F(TcpRelay, CopiesBothDirectionsAndCounts) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(sandbox, "hello"));
  EXPECT_EQ(run(receive(peer, 5)), "hello");
  run(send(peer, "hi"));
  EXPECT_EQ(run(receive(sandbox, 2)), "hi");
  EXPECT_EQ(guard->bytes_out, 5U);
  EXPECT_EQ(guard->bytes_in, 2U);
  EXPECT_EQ(guard->addresses, (std::vector<std::string>{"127.0.0.1"}));
  peer.close();
  EXPECT_EQ(end(sandbox), "end");
  EXPECT_TRUE(guard->refusals.empty());
}

TEST_F(TcpRelay, AServerMaySpeakFirst) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(peer, "220 ready\r\n"));
  EXPECT_EQ(run(receiveUntil(sandbox, "\r\n")), "220 ready\r\n");
}

TEST_F(TcpRelay, KeepsAHalfOpenConnection) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(sandbox, "question"));
  sandbox.shutdown(Socket::shutdown_send);
  EXPECT_EQ(run(receive(peer, kAll)), "question");
  run(send(peer, "answer"));
  peer.close();
  EXPECT_EQ(run(receive(sandbox, kAll)), "answer");
  finish();
  EXPECT_EQ(running, 0);
}

TEST_F(TcpRelay, PassesAResetOn) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(sandbox, "x"));
  EXPECT_EQ(run(receive(peer, 1)), "x");
  peer.set_option(asio::socket_base::linger(true, 0));
  peer.close();
  EXPECT_EQ(end(sandbox), "reset");
}

TEST_F(TcpRelay, MovesManyBytesUnchanged) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  std::string sent(size_t{5} << 20, '\0');
  std::iota(sent.begin(), sent.end(), '\0');
  const std::string got = run([](Socket& from, Socket& to, std::string bytes) -> Task<std::string> {
    co_return co_await (send(from, bytes) && receive(to, bytes.size()));
  }(sandbox, peer, sent));
  EXPECT_TRUE(got == sent);
  EXPECT_EQ(guard->bytes_out, sent.size());
}

TEST_F(TcpRelay, AReceiverThatTakesNothingStopsTheSender) {
  allow(Protocol::kTcp);
  limits.idle = Millis(200);
  Socket sandbox = connect();
  Socket peer = run(accept());
  // The relay holds a buffer of 128 KiB at most, and the sockets hold some megabytes.
  run(send(sandbox, std::string(size_t{64} << 20, 'x')));
  finish();
  EXPECT_LT(guard->bytes_out, uint64_t{48} << 20);
}

TEST_F(TcpRelay, ADeniedConnectionIsResetAndRecorded) {
  allow(Protocol::kTcp, "other.test");
  Socket sandbox = connect();
  EXPECT_EQ(end(sandbox), "reset");
  ASSERT_EQ(guard->refusals.size(), 1U);
  EXPECT_TRUE(guard->refusals[0].starts_with("origin.test:" + portText()));
  EXPECT_FALSE(sawConnection());
  EXPECT_TRUE(dns.asked().empty());
}

TEST_F(TcpRelay, APrivateAddressIsRefusedAndRecorded) {
  allow(Protocol::kTcp).internal = false;
  Socket sandbox = connect();
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_TRUE(refusalsText().contains("127.0.0.1")) << refusalsText();
  EXPECT_FALSE(sawConnection());
}

TEST_F(TcpRelay, TheRateOfRequestsHolds) {
  allow(Protocol::kTcp);
  guard->requests = 1;
  Socket first = connect();
  Socket peer = run(accept());
  Socket second = connect();
  EXPECT_EQ(run([](Socket& from) -> Task<bool> {
              boost::system::error_code error;
              co_await receive(from, 1, &error);
              co_return error == asio::error::connection_reset;
            }(second)),
            true);
  EXPECT_TRUE(refusalsText().contains("requests per minute"));
}

TEST_F(TcpRelay, BytesOverTheBoundCutTheConnection) {
  allow(Protocol::kTcp);
  guard->most_bytes = 10;
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(sandbox, "0123456789"));
  EXPECT_EQ(run(receive(peer, 10)), "0123456789");
  run(send(sandbox, "x"));
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_EQ(run(receive(peer, 1)), "");
}

TEST_F(TcpRelay, ATighterPlanCutsAnOpenTunnel) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  run(send(sandbox, "x"));
  EXPECT_EQ(run(receive(peer, 1)), "x");
  guard->change([](model::NetworkPlan& plan) { plan.generation++; });
  run(send(sandbox, "y"));
  EXPECT_EQ(run(receive(peer, 1)), "y");
  guard->change([](model::NetworkPlan& plan) { plan.rules.clear(); });
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_EQ(guard->refusals.size(), 1U);
}

TEST_F(TcpRelay, ACutEndsTheConnection) {
  allow(Protocol::kTcp);
  Socket sandbox = connect();
  Socket peer = run(accept());
  guard->is_cut = true;
  guard->change([](model::NetworkPlan&) {});
  EXPECT_EQ(end(sandbox), "reset");
}

TEST_F(TcpRelay, AnIdleTunnelEnds) {
  allow(Protocol::kTcp);
  limits.idle = Millis(100);
  Socket sandbox = connect();
  Socket peer = run(accept());
  EXPECT_EQ(end(sandbox), "reset");
}

TEST_F(TcpRelay, AnApproverMayGrantAWaitingConnection) {
  guard->plan.on_denied = model::OnDenied::kAsk;
  guard->approve = [this](model::NetworkPlan&) { allow(Protocol::kTcp); };
  Socket sandbox = connect();
  Socket peer = run(accept());
  EXPECT_EQ(guard->held, 1);
  EXPECT_TRUE(guard->refusals.empty());
  run(send(sandbox, "x"));
  EXPECT_EQ(run(receive(peer, 1)), "x");
}

TEST_F(TcpRelay, AConnectionThatNobodyApprovesIsRefused) {
  guard->plan.on_denied = model::OnDenied::kAsk;
  Socket sandbox = connect();
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_EQ(guard->held, 1);
  EXPECT_EQ(guard->refusals.size(), 1U);
}

TEST_F(TcpRelay, ARuleThatAsksForInspectionNeverPassesUnseen) {
  allow(Protocol::kTcp).entry.inspect = true;
  Socket sandbox = connect();
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_TRUE(refusalsText().contains("inspect"));
  EXPECT_FALSE(sawConnection());
}

TEST_F(TcpRelay, AnUnreachableOriginIsAReset) {
  allow(Protocol::kTcp);
  const uint16_t gone = port();
  origin.close();
  Socket sandbox = connect("origin.test", gone);
  EXPECT_EQ(end(sandbox), "reset");
  EXPECT_TRUE(guard->refusals.empty());  // it was allowed
}

TEST_F(TcpRelay, ManyIdleTunnelsHoldNoBuffers) {
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizer holds what was freed for a while";
#endif
  constexpr int kTunnels = 200;
  allow(Protocol::kTcp);
  const auto resident = [] {
    std::ifstream in("/proc/self/statm");
    size_t pages = 0;
    in >> pages >> pages;
    return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  };
  std::vector<Socket> ends;
  const size_t before = resident();
  for (int i = 0; i < kTunnels; ++i) {
    Socket sandbox = connect();
    Socket peer = run(accept());
    run(send(sandbox, "x"));
    EXPECT_EQ(run(receive(peer, 1)), "x");
    ends.push_back(std::move(sandbox));
    ends.push_back(std::move(peer));
  }
  EXPECT_LT(resident() - before, size_t{kTunnels} * (32 << 10));
}

}  // namespace
}  // namespace cloister::egress
