// SPDX-License-Identifier: Apache-2.0
#include "api/http/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/http/problem.h"
#include "api/http/request_parser.h"

namespace cloister::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

int statusOfBytes(std::string_view bytes, const HttpLimits& limits = {}) {
  const auto request = parseRequest(bytes, limits);
  return request ? 200 : request.error().status;
}

TEST(RequestParser, ReadsHeadQueryAndBody) {
  const auto request = parseRequest(
      "POST /v1/a%20b?wait=3&name=x+y%21 HTTP/1.1\r\nHost: h\r\nX-Thing:  v \r\n"
      "Content-Length: 5\r\n\r\nhello",
      {});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->method, "POST");
  EXPECT_THAT(request->path, ElementsAre("v1", "a b"));
  EXPECT_THAT(request->query, ElementsAre(Pair("wait", "3"), Pair("name", "x y!")));
  EXPECT_EQ(request->header("x-thing"), "v");
  EXPECT_EQ(request->body, "hello");
  EXPECT_TRUE(request->keep_alive);
  EXPECT_TRUE(request->id.starts_with("req_"));
}

TEST(RequestParser, ReadsChunkedBodyInAnyPieces) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestParser parser({});
    std::string pending;
    for (size_t at = 0; at < bytes.size() && !parser.done(); at += piece) {
      pending += bytes.substr(at, piece);
      for (size_t used = 1; used > 0 && !parser.done();) {
        const auto fed = parser.feed(pending);
        ASSERT_TRUE(fed) << piece << ": " << fed.error().message;
        used = *fed;
        pending.erase(0, used);
      }
    }
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_EQ(parser.takeBody(), "abcde");
  }
}

TEST(RequestParser, RefusesAmbiguousFraming) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(
      statusOfBytes(post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      400);
  EXPECT_EQ(statusOfBytes(post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"), 400);
  EXPECT_EQ(statusOfBytes(post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), 400);
  EXPECT_EQ(statusOfBytes(post + "Content-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(post + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(post + "Transfer-Encoding: gzip\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), 400);
  EXPECT_EQ(statusOfBytes("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes("GET / HTTP/1.1\r\nHost: a\r\nBad Name: b\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(post + "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx"), 417);
}

TEST(RequestParser, RefusesAFoldedHeader) {
  for (const std::string fold : {"\r\n ", "\r\n\t", " \r\n  "}) {
    for (const std::string name : {"X", "Transfer-Encoding", "Authorization"}) {
      const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n" + name + ": chunked" + fold;
      EXPECT_EQ(statusOfBytes(head + "b\r\n\r\n"), 400) << name;
    }
    const std::string head = "GET / HTTP/1.1\r\nHost: h\r\nX:" + fold + "b\r\n\r\n";
    RequestParser parser({});
    int status = 0;
    for (size_t end = 1; end <= head.size() && status == 0; ++end) {
      const auto used = parser.feed(std::string_view(head).substr(0, end));
      if (!used) status = used.error().status;
      if (used && *used > 0) break;  // like a head read in pieces
    }
    EXPECT_EQ(status, 400);
  }
  // In a body the sequence means nothing.
  EXPECT_EQ(statusOfBytes("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n\r\n \r\n"), 200);
}

TEST(RequestParser, RefusesTwoCredentials) {
  const std::string get = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n";
  EXPECT_EQ(statusOfBytes(get + "authorization: Bearer b\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(get + "Authorization: Bearer a\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(get + "X-API-Key: a\r\nX-Api-Key: a\r\n\r\n"), 400);
  EXPECT_EQ(statusOfBytes(get + "X-API-Key: a\r\n\r\n"), 200);  // for a server in a session
}

TEST(RequestParser, RefusesAHostThatIsNone) {
  const auto with = [](const std::string& host) {
    return statusOfBytes("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"127.0.0.1:80:x",
                           "127.0.0.1:80:80",
                           "localhost:x",
                           "localhost:80x",
                           "localhost:-1",
                           "localhost:100000",
                           "localhost:80 x",
                           "localhost, evil.test",
                           "user@localhost",
                           "localhost/x",
                           "localhost\\x",
                           "localhost?x",
                           "localhost#x",
                           "[::1",
                           "[::1]x",
                           "[::1]:x",
                           "[[::1]",
                           "::1",
                           "]:80",
                           "\"localhost\"",
                           "<x>",
                           "localhost\xc3\xa9"})
    EXPECT_EQ(with(host), 400) << host;
  for (const char* host : {"", "h", "h:", "h:80", "127.0.0.1:65535", "[::1]", "[::1]:8750",
                           "my.box", "a_b-c.test:1", "xn--bcher-kva.test"})
    EXPECT_EQ(with(host), 200) << host;
}

TEST(RequestParser, RefusesWhatIsNotHttp) {
  for (const std::string_view bytes :
       {std::string_view("\x16\x03\x01\x02\x00\x01\x00", 7), std::string_view("GET /\r\n\r\n"),
        std::string_view("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", 30), std::string_view(""),
        std::string_view("GET / HTTP/1.1\r\nHost: h\r\n")}) {
    EXPECT_EQ(statusOfBytes(bytes), 400) << bytes;
  }
  EXPECT_EQ(statusOfBytes("GET / HTTP/9.9\r\nHost: h\r\n\r\n"), 505);
}

TEST(RequestParser, HoldsItsBounds) {
  const HttpLimits limits{.head_bytes = 256, .body_bytes = 16};
  const std::string long_head =
      "GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(300, 'a') + "\r\n\r\n";
  EXPECT_EQ(statusOfBytes(long_head, limits), 431);
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(statusOfBytes(post + "Content-Length: 17\r\n\r\n", limits), 413);
  EXPECT_EQ(
      statusOfBytes(post + "Transfer-Encoding: chunked\r\n\r\n11\r\n12345678901234567\r\n0\r\n\r\n",
                    limits),
      413);
  EXPECT_EQ(statusOfBytes(post + "Content-Length: 16\r\n\r\n1234567890123456", limits), 200);
}

TEST(Target, IsStrict) {
  const auto bad = [](std::string_view target) {
    Request request;
    return !parseTarget(target, request);
  };
  for (const std::string_view target : {"", "*", "http://h/", "/%", "/%4", "/%zz", "/%00", "/%ff",
                                        "/?a=1&a=2", "/?a=%", "/%c0%ae%c0%ae/"}) {
    EXPECT_TRUE(bad(target)) << target;
  }
  Request request;
  ASSERT_TRUE(parseTarget("/a/../%2e%2e/b%2Fc/", request));
  EXPECT_THAT(request.path, ElementsAre("a", "..", "..", "b/c", ""));
}

TEST(PercentEncode, RoundTrips) {
  const std::string name = "a b\"\n\r;é.png";
  EXPECT_EQ(percentEncode(name), "a%20b%22%0A%0D%3B%C3%A9.png");
  EXPECT_EQ(percentDecode(percentEncode(name), false).value(), name);
}

TEST(Problem, MapsEveryCode) {
  const std::pair<Error, int> rows[] = {
      {{Code::kInvalid, "m", ""}, 400},         {{Code::kInvalid, "m", "code"}, 422},
      {{Code::kInvalid, "m", "query.a"}, 400},  {{Code::kInvalid, "m", "header.A"}, 400},
      {{Code::kUnauthorized, "m", ""}, 401},    {{Code::kDenied, "m", ""}, 403},
      {{Code::kNotFound, "m", ""}, 404},        {{Code::kConflict, "m", ""}, 409},
      {{Code::kTooLarge, "m", "code"}, 413},    {{Code::kQuota, "m", ""}, 429},
      {{Code::kUnavailable, "m", ""}, 503},     {{Code::kNoSpace, "m", ""}, 507},
      {{Code::kUnsupported, "m", "deps"}, 422}, {{Code::kInternal, "m", ""}, 500},
  };
  for (const auto& [error, status] : rows) {
    const Response response = problem(error, Request{});
    EXPECT_EQ(response.status, status);
    const auto body = base::parseJson(response.body).value().as_object();
    EXPECT_EQ(body.at("status").as_int64(), status);
    EXPECT_EQ(body.at("title").as_string(), reasonPhrase(status));
    const bool retry = status == 429 || status == 503 || status == 507;
    EXPECT_EQ(body.at("error").at("retryable").as_bool(), retry) << status;
  }
}

TEST(Problem, KeepsOurFaultsToTheLog) {
  Request request;
  request.id = "req_1";
  const Response response = problem({Code::kInternal, "opening /secret/path: no", ""}, request);
  EXPECT_THAT(response.body, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(response.body, HasSubstr("req_1"));
}

TEST(Problem, SaysWhenToComeBack) {
  Error error{Code::kQuota, "full", ""};
  error.retry_after_seconds = 7;
  const Response response = problem(error, Request{});
  const auto it = std::ranges::find(response.headers, "Retry-After", &Header::name);
  ASSERT_NE(it, response.headers.end());
  EXPECT_EQ(it->value, "7");
  error.lasting = true;
  const Response never = problem(error, Request{});
  EXPECT_EQ(never.status, 429);
  EXPECT_EQ(std::ranges::find(never.headers, "Retry-After", &Header::name), never.headers.end());
  const auto body = base::parseJson(never.body).value().as_object();
  EXPECT_FALSE(body.at("error").at("retryable").as_bool());
}

}  // namespace
}  // namespace cloister::api
