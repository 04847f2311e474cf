// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/http_relay.h"

#include <boost/asio/error.hpp>
#include <gtest/gtest.h>

#include "base/json.h"
#include "egress/relay/relay_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using model::Protocol;

class HttpRelayTest : public RelayTest {
 protected:
  [[nodiscard]] std::string host() const { return "Host: origin.test:" + portText() + "\r\n"; }
  [[nodiscard]] std::string get(const std::string& path, const std::string& fields = "") const {
    return "GET " + path + " HTTP/1.1\r\n" + host() + fields + "\r\n";
  }
  // The problem document of an answer with this status.
  static json::object problemOf(const std::string& answer, int status) {
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ")) << answer;
    EXPECT_TRUE(answer.contains("Content-Type: application/problem+json\r\n")) << answer;
    const auto problem = base::parseJson(answer.substr(answer.find("\r\n\r\n") + 4));
    EXPECT_TRUE(problem) << answer;
    return problem && problem->is_object() ? problem->as_object() : json::object();
  }
  static std::string textOf(const json::object& problem, std::string_view member) {
    const auto* value = problem.if_contains(member);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
  }
  // The answer to bytes that are refused before anything leaves.
  std::string refusedAnswer(const std::string& request) {
    Socket sandbox = connect();
    run(send(sandbox, request));
    sandbox.shutdown(Socket::shutdown_send);
    const std::string answer = run(receive(sandbox, kAll));
    finish();
    EXPECT_FALSE(sawConnection()) << request;
    return answer;
  }
};

TEST_F(HttpRelayTest, PassesARequestAndItsAnswer) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/a?b=c",
                        "X-One: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\nTE: trailers\r\n"
                        "Proxy-Authorization: Basic x\r\nKeep-Alive: 5\r\n")));
  Socket peer = run(accept());
  const std::string seen = run(receiveUntil(peer, "\r\n\r\n"));
  EXPECT_EQ(seen,
            "GET /a?b=c HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\nx-one: 1\r\n\r\n");
  run(send(peer,
           "HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nKeep-Alive: 5\r\n"
           "Content-Length: 2\r\n\r\nok"));
  EXPECT_EQ(run(receiveUntil(sandbox, "\r\n\r\nok")),
            "HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\n"
            "Connection: keep-alive\r\n\r\nok");
  EXPECT_TRUE(guard->refusals.empty());
}

TEST_F(HttpRelayTest, JudgesEachRequestOfAConnection) {
  model::PlanRule& rule = allow(Protocol::kHttp);
  rule.entry.methods = {"GET"};
  rule.entry.paths = {"/v1/*"};
  Socket sandbox = connect();
  run(send(sandbox, get("/v1/a")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 204 No Content\r\n\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "\r\n\r\n")).starts_with("HTTP/1.1 204 "));
  run(send(sandbox, get("/admin")));
  const std::string refused = run(receiveUntil(sandbox, "}\n"));
  const json::object problem = problemOf(refused, 403);
  EXPECT_EQ(textOf(problem, "rule"), "rule-0");
  EXPECT_FALSE(textOf(problem, "detail").empty());
  EXPECT_FALSE(textOf(problem, "remedy").empty());
  EXPECT_EQ(textOf(problem, "host"), "origin.test");
  // The connection continues, and the origin sees the third request alone.
  run(send(sandbox, get("/v1/b")));
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /v1/b "));
  EXPECT_EQ(guard->refusals.size(), 1U);
}

TEST_F(HttpRelayTest, RefusesAMethodAndItsBody) {
  allow(Protocol::kHttp).entry.methods = {"GET"};
  const std::string answer = refusedAnswer(
      "POST / HTTP/1.1\r\n" + host() + "Content-Length: 100000\r\n\r\n" + std::string(100000, 'x'));
  EXPECT_TRUE(answer.contains("Connection: close\r\n"));
  problemOf(answer, 403);
}

TEST_F(HttpRelayTest, ARefusedClientThatStaysIsLeft) {
  allow(Protocol::kHttp).entry.methods = {"GET"};
  limits.linger = Millis(50);
  Socket sandbox = connect();
  run(send(sandbox, "POST / HTTP/1.1\r\n" + host() + "Content-Length: 100\r\n\r\nabc"));
  const auto before = base::monotonicNow();
  EXPECT_TRUE(run(receiveUntil(sandbox, "}\n")).starts_with("HTTP/1.1 403 "));
  finish();
  EXPECT_LT(base::monotonicNow() - before, Millis(1'500));
}

TEST_F(HttpRelayTest, MasksTextsOfARequestWithoutAChangeOfLengths) {
  allow(Protocol::kHttp);
  search("[0-9]{16}", redact::RuleAction::kRedact);
  Socket sandbox = connect();
  run(send(sandbox, "POST /pay?card=4111111111111111 HTTP/1.1\r\n" + host() +
                        "X-Card: 4111111111111111\r\nContent-Length: 25\r\n\r\ncard=411111"));
  Socket peer = run(accept());
  run(send(sandbox, "1111111111&b=1"));
  const std::string seen = run(receiveUntil(peer, "b=1"));
  EXPECT_TRUE(seen.starts_with("POST /pay?card=**************** HTTP/1.1\r\n")) << seen;
  EXPECT_TRUE(seen.contains("x-card: ****************\r\n")) << seen;
  EXPECT_TRUE(seen.ends_with("\r\n\r\ncard=****************&b=1")) << seen;
  run(send(peer, "HTTP/1.1 204 No Content\r\n\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "\r\n\r\n")).starts_with("HTTP/1.1 204 "));
  run(send(sandbox, "POST / HTTP/1.1\r\n" + host() +
                        "Transfer-Encoding: chunked\r\n\r\n8\r\n41111111\r\n9\r\n11111111.\r\n"
                        "0\r\n\r\n"));
  const std::string chunked = run(receiveUntil(peer, "0\r\n\r\n"));
  EXPECT_TRUE(chunked.ends_with("\r\n\r\n11\r\n****************.\r\n0\r\n\r\n")) << chunked;
  EXPECT_EQ(guard->notes,
            (std::vector<std::string>{"origin.test dlp.card 2", "origin.test dlp.card 1",
                                      "origin.test dlp.card 1"}));
  EXPECT_TRUE(guard->refusals.empty());
}

TEST_F(HttpRelayTest, ReportsTextsThatPass) {
  allow(Protocol::kHttp);
  search("[0-9]{16}", redact::RuleAction::kReport);
  Socket sandbox = connect();
  run(send(sandbox, get("/4111111111111111")));
  Socket peer = run(accept());
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /4111111111111111 "));
  EXPECT_EQ(guard->notes, std::vector<std::string>{"origin.test dlp.card 1"});
}

TEST_F(HttpRelayTest, RefusesARequestWithAText) {
  allow(Protocol::kHttp);
  search("[0-9]{16}", redact::RuleAction::kRefuse);
  const std::string answer = refusedAnswer(get("/?card=4111111111111111"));
  const json::object problem = problemOf(answer, 403);
  EXPECT_EQ(textOf(problem, "rule"), "dlp.card");
  EXPECT_FALSE(answer.contains("4111"));
  EXPECT_TRUE(refusalsText().contains("(dlp.card)"));
  EXPECT_FALSE(refusalsText().contains("4111"));
  EXPECT_TRUE(guard->notes.empty());
}

TEST_F(HttpRelayTest, EndsARequestWhoseBodyHasAText) {
  allow(Protocol::kHttp);
  search("[0-9]{16}", redact::RuleAction::kRefuse);
  Socket sandbox = connect();
  run(send(sandbox, "POST / HTTP/1.1\r\n" + host() +
                        "Content-Length: 100\r\n\r\nfirst\nthen 4111111111111111\n"));
  Socket peer = run(accept());
  const std::string seen = run(receive(peer, kAll));  // up to the end of the stream
  EXPECT_TRUE(seen.contains("\r\n\r\n"));
  EXPECT_FALSE(seen.contains("4111")) << seen;
  peer.close();
  EXPECT_EQ(textOf(problemOf(run(receiveUntil(sandbox, "}\n")), 403), "rule"), "dlp.card");
}

TEST_F(HttpRelayTest, RefusesAnotherHost) {
  allow(Protocol::kHttp);
  for (const char* other : {"evil.test", "origin.test", "origin.test:1", "127.0.0.1"}) {
    const std::string answer =
        refusedAnswer("GET / HTTP/1.1\r\nHost: " + std::string(other) + "\r\n\r\n");
    EXPECT_TRUE(
        textOf(problemOf(answer, 421), "detail").contains("the connection is to origin.test"))
        << answer;
  }
  EXPECT_EQ(guard->refusals.size(), 4U);
}

TEST_F(HttpRelayTest, RefusesWhatAnswersToTwoReadings) {
  allow(Protocol::kHttp);
  for (const std::string& bad :
       {"GET / HTTP/1.1\r\n" + host() + host() + "\r\n",
        "POST / HTTP/1.1\r\n" + host() +
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" + host() + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "GET / HTTP/1.1\r\n" + host() + "A: b\r\n c\r\n\r\n", "GET / HTTP/1.1\n" + host() + "\r\n",
        "GET  / HTTP/1.1\r\n" + host() + "\r\n",
        "CONNECT x.test:443 HTTP/1.1\r\n" + host() + "\r\n",
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("\x16\x03\x01\x02")}) {
    const std::string answer = refusedAnswer(bad);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 505"))
        << bad << answer;
  }
}

TEST_F(HttpRelayTest, StreamsABodyInBothDirections) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox,
           "POST /up HTTP/1.1\r\n" + host() + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
  Socket peer = run(accept());
  EXPECT_TRUE(run(receiveUntil(peer, "abc\r\n")).ends_with("\r\n\r\n3\r\nabc\r\n"));
  run(send(sandbox, "2\r\nde\r\n0\r\nTrailer: dropped\r\n\r\n"));
  EXPECT_EQ(run(receiveUntil(peer, "0\r\n\r\n")), "2\r\nde\r\n0\r\n\r\n");
  run(send(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwxyz\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "wxyz\r\n"))
                  .ends_with("chunked\r\nConnection: keep-alive\r\n\r\n4\r\nwxyz\r\n"));
  run(send(peer, "0\r\n\r\n"));
  EXPECT_EQ(run(receiveUntil(sandbox, "0\r\n\r\n")), "0\r\n\r\n");
  run(send(sandbox, get("/again")));
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /again "));
}

TEST_F(HttpRelayTest, AMalformedChunkResetsTheOrigin) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox,
           "POST / HTTP/1.1\r\n" + host() + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"));
  Socket peer = run(accept());
  run(receiveUntil(peer, "a\r\n"));
  run(send(sandbox, "1;x=y\r\nb\r\n0\r\n\r\n"));
  boost::system::error_code error;
  EXPECT_EQ(run(receive(peer, 1, &error)), "");
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(HttpRelayTest, PassesContinue) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox,
           "POST / HTTP/1.1\r\n" + host() + "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
  Socket peer = run(accept());
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).contains("expect: 100-continue\r\n"));
  run(send(peer, "HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_EQ(run(receiveUntil(sandbox, "\r\n\r\n")), "HTTP/1.1 100 Continue\r\n\r\n");
  run(send(sandbox, "body"));
  EXPECT_EQ(run(receive(peer, 4)), "body");
  run(send(peer, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "\r\n\r\n")).starts_with("HTTP/1.1 201 Created\r\n"));
}

TEST_F(HttpRelayTest, AnEarlyAnswerEndsTheUpload) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, "POST / HTTP/1.1\r\n" + host() + "Content-Length: 1000000\r\n\r\nbegin"));
  Socket peer = run(accept());
  run(receiveUntil(peer, "begin"));
  run(send(peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"));
  const std::string answer = run(receiveUntil(sandbox, "big"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 Too Large\r\n"));
  EXPECT_TRUE(answer.contains("Connection: close\r\n"));
  EXPECT_EQ(run(receive(sandbox, 1)), "");
  sandbox.close();
  finish();
}

TEST_F(HttpRelayTest, AnAnswerWithoutALengthIsPassedInChunks) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 200 OK\r\n\r\nabc"));
  peer.close();
  const std::string answer = run(receive(sandbox, kAll));
  EXPECT_TRUE(answer.ends_with("3\r\nabc\r\n0\r\n\r\n")) << answer;
  finish();
}

TEST_F(HttpRelayTest, ABrokenAnswerIsABadGateway) {
  allow(Protocol::kHttp);
  for (const char* bad :
       {"SSH-2.0-x\r\n\r\n", "",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"}) {
    Socket sandbox = connect();
    run(send(sandbox, get("/")));
    Socket peer = run(accept());
    run(receiveUntil(peer, "\r\n\r\n"));
    run(send(peer, bad));
    peer.shutdown(Socket::shutdown_send);
    const std::string answer = run(receive(sandbox, kAll));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 ")) << bad << answer;
    sandbox.close();
    finish();
  }
}

TEST_F(HttpRelayTest, InterimAnswersAreBounded) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  for (int i = 0; i < 20; ++i)
    run(send(peer, "HTTP/1.1 103 Early Hints\r\n\r\n"));
  boost::system::error_code error;
  run(receive(sandbox, kAll, &error));
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(HttpRelayTest, AnAnswerCutShortIsAReset) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
  peer.close();
  boost::system::error_code error;
  run(receive(sandbox, kAll, &error));
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(HttpRelayTest, TheEndOfAKeptConnectionIsPassedOn) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 204 No Content\r\n\r\n"));
  run(receiveUntil(sandbox, "\r\n\r\n"));
  peer.close();
  boost::system::error_code error;
  EXPECT_EQ(run(receive(sandbox, 1, &error)), "");
  EXPECT_EQ(error, asio::error::eof);
}

TEST_F(HttpRelayTest, AWebSocketBecomesATunnel) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/ws",
                        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")));
  Socket peer = run(accept());
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n"))
                  .contains("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
  run(send(peer,
           "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Accept: x\r\n\r\nframe"));
  const std::string answer = run(receiveUntil(sandbox, "frame"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 101 ")) << answer;
  run(send(sandbox, "up"));
  EXPECT_EQ(run(receive(peer, 2)), "up");
  run(send(peer, "down"));
  EXPECT_EQ(run(receive(sandbox, 4)), "down");
}

TEST_F(HttpRelayTest, AHeadHasNoBody) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, "HEAD / HTTP/1.1\r\n" + host() + "\r\n"));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"));
  EXPECT_TRUE(run(receiveUntil(sandbox, "\r\n\r\n")).contains("Content-Length: 1000\r\n"));
  run(send(sandbox, get("/next")));
  EXPECT_TRUE(run(receiveUntil(peer, "\r\n\r\n")).starts_with("GET /next "));
}

TEST_F(HttpRelayTest, BytesThatNobodyAskedForEndTheConnection) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_FALSE(run(receive(sandbox, kAll)).contains("200 OK"));
  finish();
}

TEST_F(HttpRelayTest, TheRateOfRequestsIsAnswered) {
  allow(Protocol::kHttp);
  guard->requests = 0;
  const std::string answer = refusedAnswer(get("/"));
  problemOf(answer, 429);
  EXPECT_TRUE(answer.contains("Retry-After: "));
}

TEST_F(HttpRelayTest, AFailedDialIsExplained) {
  allow(Protocol::kHttp, "none.test");
  Socket sandbox = connect("none.test");
  run(send(sandbox, "GET / HTTP/1.1\r\nHost: none.test:" + portText() + "\r\n\r\n"));
  EXPECT_TRUE(
      textOf(problemOf(run(receiveUntil(sandbox, "}\n")), 502), "detail").contains("none.test"));
  guard->plan.rules.clear();
  allow(Protocol::kHttp).internal = false;
  Socket other = connect();
  run(send(other, get("/")));
  EXPECT_TRUE(
      textOf(problemOf(run(receiveUntil(other, "}\n")), 403), "detail").contains("127.0.0.1"));
  EXPECT_TRUE(refusalsText().contains("127.0.0.1"));
}

TEST_F(HttpRelayTest, ATighterPlanCutsADownload) {
  allow(Protocol::kHttp);
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  run(receiveUntil(peer, "\r\n\r\n"));
  run(send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
  run(receiveUntil(sandbox, "abc"));
  guard->change([](model::NetworkPlan& plan) { plan.rules[0].entry.paths = {"/other"}; });
  boost::system::error_code error;
  EXPECT_EQ(run(receive(sandbox, 1, &error)), "");
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(HttpRelayTest, ASlowHeadEndsInTime) {
  allow(Protocol::kHttp);
  limits.greeting = Millis(100);
  Socket sandbox = connect();
  run(send(sandbox, "GET / HTTP/1.1\r\n"));
  boost::system::error_code error;
  EXPECT_EQ(run(receive(sandbox, 1, &error)), "");
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_FALSE(sawConnection());
}

}  // namespace
}  // namespace cloister::egress
