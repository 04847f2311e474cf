// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/proxy.h"

#include <boost/asio/error.hpp>
#include <gtest/gtest.h>

#include "egress/relay/relay_testing.h"

namespace cloister::egress {
namespace {

using model::Protocol;

class ProxyTest : public RelayTest {
 protected:
  [[nodiscard]] std::string connectRequest(const std::string& place) const {
    return "CONNECT " + place + " HTTP/1.1\r\nHost: " + place + "\r\n\r\n";
  }
  [[nodiscard]] std::string absolute(const std::string& name, const std::string& path) const {
    const std::string place = name + ":" + portText();
    return "GET http://" + place + path + " HTTP/1.1\r\nHost: " + place + "\r\n\r\n";
  }
  // The answer to a request that leads nowhere.
  std::string refusedAnswer(const std::string& request) {
    Socket sandbox = connectToProxy();
    run(send(sandbox, request));
    sandbox.shutdown(Socket::shutdown_send);
    const std::string answer = run(receive(sandbox, kAll));
    finish();
    EXPECT_FALSE(sawConnection()) << request;
    return answer;
  }
};

TEST_F(ProxyTest, ConnectOpensATunnel) {
  allow(Protocol::kTcp);
  Socket sandbox = connectToProxy();
  run(send(sandbox, connectRequest("origin.test:" + portText()) + "early"));
  EXPECT_EQ(run(receiveUntil(sandbox, "\r\n\r\n")), "HTTP/1.1 200 Connection established\r\n\r\n");
  Socket peer = run(accept());
  EXPECT_EQ(run(receive(peer, 5)), "early");
  run(send(peer, "answer"));
  EXPECT_EQ(run(receive(sandbox, 6)), "answer");
}

TEST_F(ProxyTest, ConnectObeysTheRules) {
  allow(Protocol::kTcp);
  for (const std::string& place : {"evil.test:" + portText(), std::string("origin.test:22"),
                                   "127.0.0.1:" + portText(), "[::1]:" + portText()}) {
    const std::string answer = refusedAnswer(connectRequest(place));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << place << answer;
    EXPECT_TRUE(answer.contains("\"remedy\":")) << answer;
  }
  EXPECT_EQ(guard->refusals.size(), 4U);
  EXPECT_TRUE(dns.asked().empty());
}

TEST_F(ProxyTest, TheProtocolOfTheRuleHoldsBehindConnect) {
  allow(Protocol::kTls);
  Socket sandbox = connectToProxy();
  run(send(sandbox, connectRequest("origin.test:" + portText())));
  run(receiveUntil(sandbox, "\r\n\r\n"));
  Socket peer = run(accept());
  run(send(sandbox, "SSH-2.0-x\r\n"));
  EXPECT_EQ(run(receive(peer, 1)), "");
  EXPECT_TRUE(refusalsText().contains("The rule is for tls"));
}

TEST_F(ProxyTest, EachRequestBehindConnectIsJudged) {
  allow(Protocol::kHttp).entry.paths = {"/v1/*"};
  Socket sandbox = connectToProxy();
  run(send(sandbox, connectRequest("origin.test:" + portText())));
  run(receiveUntil(sandbox, "\r\n\r\n"));
  Socket peer = run(accept());
  const std::string host = " HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\n\r\n";
  run(send(sandbox, "GET /admin" + host));
  EXPECT_TRUE(run(receiveUntil(sandbox, "}\n")).starts_with("HTTP/1.1 403 "));
  run(send(sandbox, "GET /v1/a" + host));
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /v1/a HTTP/1.1\r\n"));
}

TEST_F(ProxyTest, AnAbsoluteTargetIsJudgedByItsHost) {
  allow(Protocol::kHttp);
  Socket sandbox = connectToProxy();
  run(send(sandbox, absolute("origin.test", "/a?b")));
  Socket peer = run(accept());
  EXPECT_TRUE(
      run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /a?b HTTP/1.1\r\nHost: origin.test:"));
  run(send(peer, "HTTP/1.1 204 No Content\r\n\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "\r\n\r\n")).starts_with("HTTP/1.1 204 "));
  // A second authority on the kept connection is judged on its own.
  run(send(sandbox, absolute("evil.test", "/")));
  EXPECT_TRUE(run(receiveUntil(sandbox, "}\n")).starts_with("HTTP/1.1 403 "));
  allow(Protocol::kHttp, "second.test");
  dns.set("second.test", {"127.0.0.1"});
  run(send(sandbox, absolute("second.test", "/")));
  Socket second = run(accept());
  EXPECT_TRUE(run(receiveUntil(second, "\r\n\r\n")).contains("Host: second.test:"));
  EXPECT_EQ(dns.asked("evil.test"), 0);
}

TEST_F(ProxyTest, RefusesOtherTargets) {
  allow(Protocol::kHttp);
  const std::string place = "origin.test:" + portText();
  for (const std::string& request :
       {"GET / HTTP/1.1\r\nHost: " + place + "\r\n\r\n",
        "GET https://" + place + "/ HTTP/1.1\r\nHost: " + place + "\r\n\r\n",
        "GET http://" + place + "/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET http://u@" + place + "/ HTTP/1.1\r\nHost: " + place + "\r\n\r\n",
        "CONNECT " + place + "\r\n\r\n", std::string("\x05\x01\x00", 3)}) {
    const std::string answer = refusedAnswer(request);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 505"))
        << request << answer;
  }
}

TEST_F(ProxyTest, AFailedDialIsAnswered) {
  allow(Protocol::kTcp, "none.test");
  const std::string answer = refusedAnswer(connectRequest("none.test:" + portText()));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 ")) << answer;
  guard->plan.rules[0].entry.name = "origin.test";
  guard->plan.rules[0].internal = false;
  EXPECT_TRUE(
      refusedAnswer(connectRequest("origin.test:" + portText())).starts_with("HTTP/1.1 403 "));
}

TEST_F(ProxyTest, TheRateOfRequestsIsAnswered) {
  allow(Protocol::kTcp);
  guard->requests = 0;
  EXPECT_TRUE(
      refusedAnswer(connectRequest("origin.test:" + portText())).starts_with("HTTP/1.1 429 "));
}

}  // namespace
}  // namespace cloister::egress
