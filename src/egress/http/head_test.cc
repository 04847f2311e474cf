// SPDX-License-Identifier: Apache-2.0
#include "egress/http/head.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::egress {
namespace {

using namespace std::literals;
using testing::HasSubstr;

const std::string kHost = "Host: a.example.com\r\n";

std::string get(std::string_view fields) {
  return "GET / HTTP/1.1\r\n" + kHost + std::string(fields) + "\r\n";
}

// The head of a request to a.example.com for that target.
std::string requestFor(std::string_view method, std::string_view target) {
  return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n" + kHost + "\r\n";
}

// The refusal; "" if the head is accepted.
std::string whyOf(const std::string& bytes) {
  const auto head = readHead(bytes);
  return head ? "" : head.error().message;
}

Code codeOf(const std::string& bytes) {
  return readHead(bytes).error().code;
}

RequestHead read(const std::string& bytes) {
  auto head = readHead(bytes);
  EXPECT_TRUE(head) << head.error().message;
  return head.value_or(RequestHead());
}

std::string file(const std::string& name) {
  const std::string bytes =
      base::readFile(CLOISTER_SOURCE_DIR "/fuzz/corpus/http_head/" + name).value();
  return bytes.substr(0, headEnd(bytes).value_or(std::nullopt).value_or(bytes.size()));
}

TEST(Head, HasItsTargetAndFields) {
  const RequestHead head = read(
      "PUT /v1/a%20b?x=/../y HTTP/1.1\r\nHOST: A.Example.com:8080\r\nX-One:\t two words \t\r\n"
      "x-one: \xc3\xbc\r\nEmpty:\r\n\r\n");
  EXPECT_EQ(head.method, "PUT");
  EXPECT_EQ(head.form, TargetForm::kOrigin);
  EXPECT_EQ(head.host, "a.example.com");
  EXPECT_EQ(head.port, 8080);
  EXPECT_EQ(head.path, "/v1/a%20b");
  EXPECT_EQ(head.origin, "/v1/a%20b?x=/../y");
  EXPECT_EQ(head.fields, (std::vector<HeadField>{{"host", "A.Example.com:8080"},
                                                 {"x-one", "two words"},
                                                 {"x-one", "\xc3\xbc"},
                                                 {"empty", ""}}));
  EXPECT_EQ(head.field("x-one"), "two words");
  EXPECT_EQ(head.field("absent"), "");
  EXPECT_TRUE(head.http11 && head.keep_alive);
  EXPECT_FALSE(head.chunked || head.content_length || head.websocket);
}

TEST(Head, OfClientsIsRead) {
  size_t clients = 0;
  for (const char* name : {"curl_get", "curl_post", "curl_upload", "curl_h2c_upgrade", "urllib",
                           "node_fetch", "git_clone", "apt", "pip", "npm", "websocket"}) {
    const RequestHead head = read(file(name));
    EXPECT_EQ(head.form, TargetForm::kOrigin) << name;
    EXPECT_FALSE(head.host.empty()) << name;
    ++clients;
  }
  EXPECT_EQ(clients, 11U);
  EXPECT_EQ(read(file("curl_post")).content_length, 7U);
  EXPECT_TRUE(read(file("curl_upload")).chunked);
  EXPECT_FALSE(read(file("curl_h2c_upgrade")).websocket);
  EXPECT_FALSE(read(file("urllib")).keep_alive);
  EXPECT_EQ(read(file("pip")).path, "/simple/numpy/");
}

TEST(Head, OfProxyClientsIsRead) {
  const RequestHead absolute = read(file("curl_proxy"));
  EXPECT_EQ(absolute.form, TargetForm::kAbsolute);
  EXPECT_EQ(absolute.scheme, "http");
  EXPECT_EQ(absolute.host, "api.example.com");
  EXPECT_EQ(absolute.origin, "/v1?x=1");
  EXPECT_EQ(absolute.path, "/v1");
  for (const char* name : {"curl_connect", "urllib_connect"}) {
    const RequestHead connect = read(file(name));
    EXPECT_EQ(connect.form, TargetForm::kAuthority) << name;
    EXPECT_EQ(connect.host, "api.example.com");
    EXPECT_EQ(connect.port, 443);
    EXPECT_EQ(connect.path, "");
  }
}

TEST(Head, HasOneFormForEachMethod) {
  EXPECT_EQ(read(requestFor("OPTIONS", "*")).form, TargetForm::kAsterisk);
  EXPECT_NE(whyOf(requestFor("GET", "*")), "");
  EXPECT_NE(whyOf(requestFor("CONNECT", "/")), "");
  EXPECT_NE(whyOf(requestFor("CONNECT", "a.example.com")), "");
  EXPECT_NE(whyOf(requestFor("CONNECT", "http://a.example.com:80/")), "");
  EXPECT_NE(whyOf(requestFor("GET", "a.example.com:80")), "");
  EXPECT_EQ(whyOf(requestFor("CONNECT", "a.example.com:443")), "");
  EXPECT_NE(whyOf("CONNECT a.example.com:443 HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\n\r\n"),
            "");
}

TEST(Head, RefusesOddTargets) {
  for (const auto target : {""sv,
                            "/a b"sv,
                            "/a\tb"sv,
                            "/a\\b"sv,
                            "/#x"sv,
                            "/\x7f"sv,
                            "/\xc3\xbc"sv,
                            "/<x>"sv,
                            "/\"x"sv,
                            "/a\0b"sv,
                            "http://u@a.example.com/"sv,
                            "http://a.example.com@evil.test/"sv,
                            "http://a.example.com:0/"sv,
                            "http://a.example.com:65536/"sv,
                            "http://a.example.com:/"sv,
                            "http://a.example.com:80:80/"sv,
                            "http://a.example.com./"sv,
                            "http:///x"sv,
                            "http:/x"sv,
                            "http://a%2eexample.com/"sv,
                            "ftp://a.example.com/"sv,
                            "http://[::1"sv,
                            "http://[a.b]/"sv,
                            "http://evil.test/"sv,
                            "http://a.example.com:81/"sv,
                            "https://a.example.com:80/"sv})
    EXPECT_NE(whyOf(requestFor("GET", target)), "") << target;
  EXPECT_EQ(read(requestFor("GET", "HTTP://A.example.com:80?q")).origin, "/?q");
  EXPECT_EQ(read(requestFor("GET", "http://a.example.com")).path, "/");
  EXPECT_EQ(read(requestFor("GET", "https://a.example.com/x")).scheme, "https");
  EXPECT_EQ(read(requestFor("GET", "//evil.test/x")).host, "a.example.com");
}

TEST(Head, RefusesOddRequestLines) {
  for (const char* line :
       {"GET  / HTTP/1.1", "GET /  HTTP/1.1", " GET / HTTP/1.1", "GET / HTTP/1.1 ", "GET /", "GET",
        "GET / HTTP/1.2", "GET / HTTP/2.0", "GET / http/1.1", "G(T / HTTP/1.1", "GET\t/ HTTP/1.1",
        "GET / HTTP/1.1 x", "GET / HTTP/01.1"})
    EXPECT_NE(whyOf(line + "\r\n"s + kHost + "\r\n"), "") << line;
  EXPECT_NE(whyOf("\r\nGET / HTTP/1.1\r\n" + kHost + "\r\n"), "");
  EXPECT_NE(whyOf(std::string(33, 'G') + " / HTTP/1.1\r\n" + kHost + "\r\n"), "");
  EXPECT_EQ(codeOf("GET / HTTP/3.0\r\n" + kHost + "\r\n"), Code::kUnsupported);
}

TEST(Head, NeedsOneHost) {
  EXPECT_NE(whyOf("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_NE(whyOf("GET / HTTP/1.0\r\n\r\n"), "");
  EXPECT_EQ(whyOf("GET / HTTP/1.0\r\n" + kHost + "\r\n"), "");
  EXPECT_EQ(whyOf(get(kHost)), "Host is given twice.");
  EXPECT_EQ(whyOf(get("hOST: a.example.com\r\n")), "Host is given twice.");
  for (const auto host :
       {""sv, "a b"sv, "a,b"sv, "a/b"sv, "u@a"sv, "a:x"sv, "a:0"sv, "a:99999"sv, "a."sv, ".a"sv,
        "a..b"sv, "a%41"sv, "http://a"sv, "[::1"sv, "[::1]x"sv, "::1"sv, "a:80:80"sv, "\xc3\xbc"sv})
    EXPECT_NE(whyOf("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), "") << host;
  const RequestHead literal = read("GET / HTTP/1.1\r\nHost: [2001:DB8::1]:80\r\n\r\n");
  EXPECT_EQ(literal.host, "2001:db8::1");
  EXPECT_EQ(literal.port, 80);
}

TEST(Head, NeedsAHostThatAgreesWithItsTarget) {
  const auto connect = [](std::string_view host) {
    return whyOf("CONNECT a.example.com:443 HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
  };
  EXPECT_EQ(connect("a.example.com:443"), "");
  EXPECT_EQ(connect("A.example.com"), "");
  EXPECT_NE(connect("a.example.com:80"), "");
  EXPECT_NE(connect("evil.test:443"), "");
  const auto absolute = [](std::string_view host) {
    return whyOf("GET http://a.example.com:8080/ HTTP/1.1\r\nHost: " + std::string(host) +
                 "\r\n\r\n");
  };
  EXPECT_EQ(absolute("a.example.com:8080"), "");
  EXPECT_NE(absolute("a.example.com"), "");
  EXPECT_NE(absolute("evil.test:8080"), "");
}

TEST(Head, RefusesTwoReadingsOfTheBody) {
  for (const char* fields : {"Content-Length: 1\r\nContent-Length: 1\r\n",
                             "Content-Length: 1, 1\r\n",
                             "Content-Length: +1\r\n",
                             "Content-Length: -1\r\n",
                             "Content-Length: 0x1\r\n",
                             "Content-Length: 1 1\r\n",
                             "Content-Length:\r\n",
                             "Content-Length: 9999999999999999999\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
                             "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: chunked, identity\r\n",
                             "Transfer-Encoding: identity\r\n",
                             "Transfer-Encoding: xchunked\r\n",
                             "Transfer-Encoding: \"chunked\"\r\n",
                             "Transfer-Encoding:\r\n",
                             "Transfer-Encoding : chunked\r\n",
                             "Transfer_Encoding: chunked\r\n",
                             "Content_Length: 1\r\n",
                             "Content-Length : 1\r\n",
                             "Transfer-Encoding: chun\x0bked\r\n"})
    EXPECT_NE(whyOf(get(fields)), "") << fields;
  EXPECT_TRUE(read(get("Transfer-Encoding: Chunked\r\n")).chunked);
  EXPECT_EQ(read(get("Content-Length: 00012\r\n")).content_length, 12U);
  EXPECT_NE(whyOf("POST / HTTP/1.0\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n"), "");
}

TEST(Head, RefusesTwoReadingsOfItsLines) {
  for (const auto fields :
       {"X: 1\r\n folded\r\n"sv, "X: 1\r\n\tfolded\r\n"sv, " X: 1\r\n"sv, "X: a\rb\r\n"sv,
        "X: a\nY: b\r\n"sv, "X: a\0b\r\n"sv, "X\0: a\r\n"sv, "X Y: a\r\n"sv, "X\x80: a\r\n"sv,
        "X(: a\r\n"sv, ": a\r\n"sv, "no colon\r\n"sv, "X: a\x7f\r\n"sv, "X: a\x01\r\n"sv,
        "X\t: a\r\n"sv, "X: a\r\r\n"sv})
    EXPECT_NE(whyOf(get(fields)), "") << fields;
  EXPECT_NE(whyOf("GET / HTTP/1.1\n" + kHost + "\r\n"), "");
  EXPECT_NE(whyOf(get("") + "x"), "");
  EXPECT_NE(whyOf(get("").substr(0, 20)), "");
}

TEST(Head, KnowsWhatItsFieldsNameInPlaceOfIt) {
  const auto head = readHead(
      "POST /a HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: delete, Put\r\n"
      "x_http_method: PATCH\r\nX-Method-Override:\r\nX-Original-URL: /b?c\r\n"
      "X-Rewrite-URL: /d\r\nX-Own: GET\r\n\r\n");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->field_methods, (std::vector<std::string>{"DELETE", "PUT", "PATCH"}));
  EXPECT_EQ(head->field_paths, (std::vector<std::string>{"/b", "/d"}));
}

TEST(Head, HasBounds) {
  std::string fields;
  for (size_t i = 1; i < kMaxHeadFields; ++i)
    fields += "X: 1\r\n";
  EXPECT_EQ(whyOf(get(fields)), "");
  EXPECT_EQ(codeOf(get(fields + "X: 1\r\n")), Code::kTooLarge);
  EXPECT_EQ(whyOf(get("X: " + std::string(kMaxHeadBytes - 100, 'x') + "\r\n")), "");
  EXPECT_EQ(codeOf(get("X: " + std::string(kMaxHeadBytes, 'x') + "\r\n")), Code::kTooLarge);
  EXPECT_EQ(whyOf(requestFor("GET", "/" + std::string(kMaxTargetBytes - 1, 'x'))), "");
  EXPECT_EQ(codeOf(requestFor("GET", "/" + std::string(kMaxTargetBytes, 'x'))), Code::kTooLarge);
  EXPECT_EQ(headEnd("GET /" + std::string(kMaxHeadBytes, 'x')).error().code, Code::kTooLarge);
}

TEST(Head, ExpectsNothingButContinue) {
  EXPECT_EQ(whyOf(get("Expect: 100-Continue\r\n")), "");
  EXPECT_EQ(codeOf(get("Expect: something\r\n")), Code::kUnsupported);
  EXPECT_EQ(codeOf(get("Expect: 100-continue\r\nExpect: 100-continue\r\n")), Code::kUnsupported);
}

TEST(Head, KnowsWhetherTheConnectionStays) {
  EXPECT_TRUE(read(get("")).keep_alive);
  EXPECT_FALSE(read(get("Connection: x, CLOSE\r\n")).keep_alive);
  EXPECT_FALSE(read("GET / HTTP/1.0\r\n" + kHost + "\r\n").keep_alive);
  EXPECT_TRUE(read("GET / HTTP/1.0\r\n" + kHost + "Connection: keep-alive\r\n\r\n").keep_alive);
  EXPECT_TRUE(read(get("Connection: closed\r\n")).keep_alive);
  EXPECT_TRUE(read(get("Connection: a\r\nConnection: b ,\tc\r\n")).has("connection", "c"));
}

TEST(Head, KnowsAnUpgradeToAWebSocket) {
  const std::string upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";
  EXPECT_TRUE(read(get(upgrade)).websocket);
  EXPECT_FALSE(read(get("Upgrade: websocket\r\n")).websocket);
  EXPECT_FALSE(read(get("Connection: upgrade\r\nUpgrade: h2c\r\n")).websocket);
  EXPECT_FALSE(read(get("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n")).websocket);
  EXPECT_FALSE(read(get(upgrade + "Upgrade: h2c\r\n")).websocket);
  EXPECT_FALSE(read(get(upgrade + "Content-Length: 3\r\n")).websocket);
  EXPECT_FALSE(read("POST / HTTP/1.1\r\n" + kHost + upgrade + "\r\n").websocket);
}

TEST(HeadEnd, IsMeasured) {
  const std::string head = get("X: 1\r\n");
  for (size_t size = 0; size < head.size(); ++size)
    EXPECT_EQ(headEnd(head.substr(0, size)).value(), std::nullopt) << size;
  EXPECT_EQ(headEnd(head + "body\r\n\r\n").value(), head.size());
  EXPECT_EQ(headEnd(head + "body\n\n").value(), head.size());
}

TEST(HeadEnd, KnowsOtherProtocolsByTheirFirstBytes) {
  EXPECT_THAT(headEnd(file("curl_h2_prior_knowledge")).error().message, HasSubstr("HTTP/2"));
  EXPECT_THAT(headEnd("PRI * HTTP/2.0\r\n").error().message, HasSubstr("HTTP/2"));
  EXPECT_TRUE(headEnd("PR"));
  EXPECT_TRUE(headEnd("PROPFIND / HTTP/1.1\r\n"));
  EXPECT_THAT(headEnd("\x16\x03\x01").error().message, HasSubstr("TLS"));
  EXPECT_FALSE(headEnd("\r\n"));
  EXPECT_FALSE(headEnd("\0"sv));
  EXPECT_FALSE(headEnd("GET / HTTP/1.1\n"));  // its reader would wait forever
}

TEST(HeadProperties, ChangedBytesKeepOneHostAndOneLength) {
  std::mt19937 random(4);
  const std::string good = get("Content-Length: 12\r\nX: y\r\nConnection: close\r\n");
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (size_t i = 1 + random() % 3; i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto end = headEnd(bytes);
    if (!end || !*end) continue;
    const auto head = readHead(bytes.substr(0, **end));
    if (!head) continue;
    ++accepted;
    EXPECT_FALSE(head->host.empty());
    EXPECT_LE(std::ranges::count(head->fields, "host", &HeadField::name), 1);
    EXPECT_LE(std::ranges::count(head->fields, "content-length", &HeadField::name), 1);
    EXPECT_TRUE(head->form != TargetForm::kOrigin || head->path.starts_with('/'));
  }
  EXPECT_GT(accepted, 0U);
}

// --- HTTP/2

RequestParts parts(std::vector<HeadField> fields = {}) {
  return {.method = "GET",
          .scheme = "https",
          .authority = "a.example.com",
          .path = "/v1?x=1",
          .fields = std::move(fields)};
}

std::string whyOf(RequestParts parts) {
  const auto head = readRequest(std::move(parts));
  return head ? "" : head.error().message;
}

TEST(Http2Head, HasItsTargetAndFields) {
  const auto head = readRequest(parts({{"x-one", " 1 "}, {"content-length", "5"}})).value();
  EXPECT_EQ(head.method, "GET");
  EXPECT_EQ(head.scheme, "https");
  EXPECT_EQ(head.host, "a.example.com");
  EXPECT_EQ(head.path, "/v1");
  EXPECT_EQ(head.origin, "/v1?x=1");
  EXPECT_EQ(head.field("x-one"), "1");
  EXPECT_EQ(head.content_length, 5U);
  EXPECT_TRUE(head.keep_alive);
}

TEST(Http2Head, HostAndAuthorityAreOne) {
  EXPECT_EQ(whyOf(parts({{"host", "a.example.com"}})), "");
  EXPECT_EQ(whyOf(parts({{"host", "a.example.com:443"}})), "");
  EXPECT_THAT(whyOf(parts({{"host", "b.example.com"}})), HasSubstr("differs from :authority"));
  EXPECT_THAT(whyOf(parts({{"host", "a.example.com:444"}})), HasSubstr("differs"));
  EXPECT_THAT(whyOf(parts({{"host", "a.example.com"}, {"host", "a.example.com"}})),
              HasSubstr("twice"));
  RequestParts by_host = parts({{"host", "a.example.com:8443"}});
  by_host.authority.clear();
  EXPECT_EQ(readRequest(by_host).value().port, 8443);
  RequestParts none = parts();
  none.authority.clear();
  EXPECT_NE(whyOf(none), "");
  for (const char* odd : {"user@a.example.com", "a.example.com.", "a.example.com:0", "a b"}) {
    RequestParts made = parts();
    made.authority = odd;
    EXPECT_NE(whyOf(made), "") << odd;
  }
}

TEST(Http2Head, OddPartsAreRefused) {
  for (const char* path : {"", "v1", "https://b.example.com/", "/a b", "/a\\b", "/#x", "*"}) {
    RequestParts made = parts();
    made.path = path;
    EXPECT_NE(whyOf(made), "") << path;
  }
  for (const char* method : {"", "CONNECT", "GE T"}) {
    RequestParts made = parts();
    made.method = method;
    EXPECT_NE(whyOf(made), "") << method;
  }
  for (const HeadField& field : {HeadField{"connection", "close"},
                                 {"transfer-encoding", "chunked"},
                                 {"upgrade", "x"},
                                 {"X-Upper", "1"},
                                 {"x y", "1"},
                                 {"x", "a\r\nb: c"},
                                 {"content_length", "1"},
                                 {"content-length", "x"},
                                 {"expect", "something"}}) {
    EXPECT_NE(whyOf(parts({field})), "") << field.name;
  }
}

}  // namespace
}  // namespace cloister::egress
