// SPDX-License-Identifier: Apache-2.0
#include "api/http/port_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::api {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

Request requestFor(const std::string& target, std::vector<Header> headers = {}) {
  Request request;
  request.method = "GET";
  EXPECT_TRUE(parseTarget(target.substr(0, target.find('?')), request)) << target;
  request.target = target;
  request.headers = std::move(headers);
  request.headers.push_back({"host", "service:8750"});
  request.params = {request.path.at(2), request.path.at(4), ""};
  return request;
}

std::string headOf(std::vector<Header> headers, const std::string& port = "8000") {
  const Request request = requestFor("/v1/sessions/s/ports/" + port + "/a", std::move(headers));
  return headForInside(request, portTarget(request).value(), "");
}

TEST(PortHeaders, TakesATargetApart) {
  const PortTarget target =
      portTarget(requestFor("/v1/sessions/s/ports/8000/a%2Fb//c?x=1&x=%zz")).value();
  EXPECT_EQ(target.port, 8000);
  EXPECT_EQ(target.token, "");
  EXPECT_EQ(target.prefix, "/v1/sessions/s/ports/8000");
  EXPECT_EQ(target.inside, "/a%2Fb//c?x=1&x=%zz");
  const PortTarget linked = portTarget(requestFor("/v1/sessions/s/ports/80~9-ab/")).value();
  EXPECT_EQ(linked.token, "9-ab");
  EXPECT_EQ(linked.prefix, "/v1/sessions/s/ports/80~9-ab");
  EXPECT_EQ(portTarget(requestFor("/v1/sessions/s/ports/80?a/b")).value().inside, "/?a/b");
  for (const char* port : {"0", "65536", "-1", "+1", "1x", "x", "~1"})
    EXPECT_FALSE(portTarget(requestFor(std::string("/v1/sessions/s/ports/") + port + "/"))) << port;
  Request odd = requestFor("/v1/sessions/s/ports/80/");
  for (const char* rest : {"a b", "a\tb", "a\x7f", "\xc3\xa9", "a#b"}) {
    odd.target = std::string("/v1/sessions/s/ports/80/") + rest;
    EXPECT_FALSE(portTarget(odd)) << rest;
  }
}

TEST(PortHeaders, KeepsWhatIsOurs) {
  const std::string head = headOf({{"authorization", "Bearer clo_1"},
                                   {"cookie", "a=b"},
                                   {"x-own", "1"},
                                   {"origin", "null"},
                                   {"x-forwarded-for", "1.2.3.4"}});
  EXPECT_THAT(head, AllOf(HasSubstr("x-own: 1\r\n"), Not(HasSubstr("clo_")), Not(HasSubstr("a=b")),
                          Not(HasSubstr("1.2.3.4")), HasSubstr("Origin: http://localhost:8000\r\n"),
                          HasSubstr("Host: localhost:8000\r\n"),
                          HasSubstr("X-Forwarded-Host: service:8750\r\n")));
  EXPECT_THAT(headOf({{"x-api-key", "clo_1"}, {"authorization", "Basic eDp5"}}),
              AllOf(HasSubstr("authorization: Basic eDp5"), Not(HasSubstr("clo_"))));
  EXPECT_THAT(headOf({{"authorization", "Bearer clo_1"}}, "80~9-ab"), Not(HasSubstr("clo_")));
}

TEST(PortHeaders, TellsNobodyTheTokenOfALink) {
  const std::string token = "1893456000-0a1b2c";
  const std::string linked = "80~" + token;
  const std::string path = "/v1/sessions/s/ports/" + linked;
  for (const char* name : {"referer", "x-original-uri", "x-original-url", "x-rewrite-url",
                           "x-forwarded-uri", "x-forwarded-prefix", "destination", "x-own"}) {
    EXPECT_THAT(headOf({{name, "https://service" + path + "/b"}}, linked), Not(HasSubstr("0a1b2c")))
        << name;
  }
  EXPECT_THAT(headOf({{"x-own", "t=1893456000-0A1B2C"}}, linked), Not(HasSubstr("0A1B2C")));
  EXPECT_THAT(headOf({{"x-own", "ports/80~1893456000%2d0a1b2c"}}, "80~1893456000%2D0a1b2c"),
              Not(HasSubstr("0a1b2c")));
  EXPECT_THAT(headOf({}, linked), Not(HasSubstr("X-Forwarded-Prefix")));
  EXPECT_THAT(headOf({{"x-own", "1"}}, linked), HasSubstr("x-own: 1\r\n"));
  EXPECT_THAT(headOf({}), HasSubstr("X-Forwarded-Prefix: /v1/sessions/s/ports/8000\r\n"));
}

TEST(PortHeaders, GivesNoPasswordOfABrowserToALink) {
  for (const char* value : {"Basic eDp5", "basic eDp5", "Digest username=\"x\"",
                            "Negotiate YII=", "NTLM TlR", "Bearer", "Bearerx y"})
    EXPECT_THAT(headOf({{"authorization", value}}, "80~9-ab"), Not(HasSubstr("authorization")))
        << value;
  EXPECT_THAT(headOf({{"authorization", "bearer of-its-own"}}, "80~9-ab"),
              HasSubstr("authorization: bearer of-its-own"));
  EXPECT_THAT(headOf({{"cookie", "a=b"}, {"cookie2", "$Version=1"}}, "80~9-ab"),
              AllOf(Not(HasSubstr("a=b")), Not(HasSubstr("Version"))));
}

TEST(PortHeaders, SendsNothingThatIsForThisHop) {
  const std::string head = headOf({{"connection", "close , X-Hop"},
                                   {"x-hop", "1"},
                                   {"te", "trailers"},
                                   {"upgrade", "h2c"},
                                   {"http2-settings", "AAMAAABkAAQ"},
                                   {"transfer-encoding", "chunked"},
                                   {"x-bad", "a\r\nX-Evil: 1"}});
  for (const char* gone : {"x-hop", "te:", "h2c", "http2-settings", "chunked", "Evil"})
    EXPECT_THAT(head, Not(HasSubstr(gone)));
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n\r\n"));
}

TEST(PortHeaders, KnowsAnUpgrade) {
  const auto wanted = [](std::vector<Header> headers) {
    return wantedUpgrade(requestFor("/v1/sessions/s/ports/80/", std::move(headers)));
  };
  EXPECT_EQ(wanted({{"connection", "keep-alive, Upgrade"}, {"upgrade", "WebSocket"}}), "websocket");
  EXPECT_EQ(wanted({{"upgrade", "websocket"}}), "");
  EXPECT_EQ(wanted({{"connection", "upgrade"}}), "");
  EXPECT_EQ(wanted({{"connection", "upgrade"}, {"upgrade", "a"}, {"upgrade", "b"}}), "");
}

TEST(PortHeaders, LetsAnAnswerHoldForItselfOnly) {
  PortTarget target;
  target.port = 8000;
  target.prefix = "/p";
  ResponseHead head;
  head.headers = {{"set-cookie", "a=b"},        {"x-mine", "1"},  {"location", "/x"},
                  {"connection", "x-hop"},      {"x-hop", "1"},   {"content-length", "3"},
                  {"clear-site-data", "\"*\""}, {"alt-svc", "h3"}};
  for (const char* name :
       {"www-authenticate", "proxy-authenticate", "optional-www-authenticate",
        "authentication-info", "proxy-authentication-info", "set-cookie2", "set-login",
        "use-as-dictionary", "secure-session-registration", "sec-session-registration"})
    head.headers.push_back({name, "challenge"});
  const std::vector<Header> headers = headersForClient(head, target);
  const auto named = [](const char* name) { return Contains(Field(&Header::name, name)); };
  for (const char* gone :
       {"set-cookie", "x-hop", "content-length", "clear-site-data", "alt-svc", "location"})
    EXPECT_THAT(headers, Not(named(gone))) << gone;
  EXPECT_THAT(headers, Not(Contains(Field(&Header::value, "challenge"))));
  EXPECT_THAT(headers, named("x-mine"));
  EXPECT_THAT(headers, Contains(Field(&Header::value, "/p/x")));
  EXPECT_THAT(headers, Contains(Field(&Header::value, HasSubstr("sandbox"))));
}

TEST(PortHeaders, AHostOfItsOwnSignsNobodyOut) {
  PortTarget target;
  target.port = 8000;
  ResponseHead head;
  head.headers = {{"clear-site-data", "\"cookies\""}, {"x-mine", "1"}};
  const std::vector<Header> headers = headersForClient(head, target);
  EXPECT_THAT(headers, Not(Contains(Field(&Header::name, "clear-site-data"))));
  EXPECT_THAT(headers, Contains(Field(&Header::name, "x-mine")));
}

// A cookie of any path would belong to the service's origin: the server could displace the
// service's own cookies, and another link's server could read the cookie.
TEST(PortHeaders, SetsNoCookieWhateverItsForm) {
  for (const char* cookie :
       {"a=b", "a=b; Path=/", "__Host-a=b; Secure; Path=/", "__Secure-a=b; Secure", "=b",
        "a=b; Domain=service", "a=b; Path=/v1/sessions/s/ports/80~9-ab"}) {
    for (const char* token : {"", "9-ab"}) {
      PortTarget target;
      target.token = token;
      ResponseHead head;
      head.headers = {{"set-cookie", cookie}, {"set-cookie", cookie}};
      for (const Header& header : headersForClient(head, target))
        EXPECT_NE(lowerCase(header.name), "set-cookie") << cookie;
    }
  }
}

TEST(PortHeaders, MapsRedirects) {
  PortTarget target;
  target.port = 8000;
  target.prefix = "/p";
  const auto mapped = [&](const std::string& location) {
    ResponseHead head;
    head.headers = {{"location", location}};
    for (const Header& header : headersForClient(head, target)) {
      if (header.name == "Location") return header.value;
    }
    return std::string();
  };
  EXPECT_EQ(mapped("/a?b"), "/p/a?b");
  EXPECT_EQ(mapped("http://localhost:8000/a"), "/p/a");
  EXPECT_EQ(mapped("http://127.0.0.1:8000"), "/p/");
  EXPECT_EQ(mapped("http://localhost:80001/a"), "http://localhost:80001/a");
  EXPECT_EQ(mapped("//evil.test/a"), "//evil.test/a");
  EXPECT_EQ(mapped("a/b"), "a/b");
}

// The parser's result for `bytes` in pieces of `size`: the body, or an error.
Result<std::string> parsed(std::string_view bytes, size_t size, bool to_head = false) {
  ResponseParser parser(to_head);
  std::string pending;
  std::string body;
  bool head = false;
  while (true) {
    const size_t used = TRY(parser.feed(pending));
    pending.erase(0, used);
    if (parser.headDone() && !std::exchange(head, true)) TRY(parser.head());
    body += parser.takeBody();
    if (parser.done()) return body;
    if (used > 0) continue;
    if (bytes.empty()) break;
    pending += bytes.substr(0, size);
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  TRY(parser.end());
  return body;
}

TEST(ResponseParser, ReadsBodiesOfEveryKind) {
  for (const size_t size : {1U, 3U, 1000U}) {
    EXPECT_EQ(parsed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", size).value(), "hi");
    EXPECT_EQ(parsed("HTTP/1.0 200 OK\r\n\r\nhi", size).value(), "hi");
    EXPECT_EQ(parsed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "2;x=y\r\nhi\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
                     size)
                  .value(),
              "hi!");
    EXPECT_EQ(parsed("HTTP/1.1 204 None\r\n\r\n", size).value(), "");
    EXPECT_EQ(parsed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", size, true).value(), "");
  }
}

TEST(ResponseParser, RefusesWhatIsCutOrAmbiguous) {
  for (const size_t size : {1U, 1000U}) {
    for (const char* bytes :
         {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
          "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nX: a\x01\r\nContent-Length: 0\r\n\r\n", "SSH-2.0-x\r\n\r\n"})
      EXPECT_FALSE(parsed(bytes, size)) << bytes;
    const std::string many = [] {
      std::string head = "HTTP/1.1 200 OK\r\n";
      for (size_t i = 0; i <= ResponseParser::kHeaders; ++i)
        head += "X: y\r\n";
      return head + "Content-Length: 0\r\n\r\n";
    }();
    EXPECT_FALSE(parsed(many, size));
  }
  EXPECT_FALSE(parsed("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'y') + "\r\n\r\n", 4096));
}

// The cookies of the web interface.
TEST(PortHeaders, SignInCookiesStayOutside) {
  Request request = requestFor("/v1/sessions/s/ports/8000/a");
  request.params = {"s", "8000", ""};
  request.target = "/a";
  request.headers = {{"host", "8000-s.boxes.test"},
                     {"cookie",
                      "own=1; __Host-cloister=a; CLOISTER_UI=b;\tcloister_ui=c; =cloister_ui=d; "
                      "__Host-cloister-login=e; cloister_ui_login=f; __Host-theirs=2"}};
  const std::string head = headForInside(request, hostTarget(request).value(), "");
  EXPECT_THAT(head, HasSubstr("Cookie: own=1; __Host-theirs=2\r\n"));
  ResponseHead answer;
  for (const char* planted : {"__Host-cloister=x; Path=/", "cloister_ui=x", " Cloister_UI =x",
                              "=cloister_ui=x", "cloister_ui_login=x", "__host-cloister-login=x"})
    answer.headers.push_back({"set-cookie", planted});
  answer.headers.push_back({"set-cookie", "own=1; Path=/; Domain=boxes.test"});
  std::vector<std::string> kept;
  for (const Header& header : headersForClient(answer, hostTarget(request).value())) {
    if (header.name == "Set-Cookie") kept.push_back(header.value);
  }
  EXPECT_EQ(kept, std::vector<std::string>{"own=1; Path=/"});
}

}  // namespace
}  // namespace cloister::api
