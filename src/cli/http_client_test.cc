// SPDX-License-Identifier: Apache-2.0
// The client against a server that says whatever the test wants, in any pieces, and may be hostile.
#include "cli/http_client.h"

#include <sys/eventfd.h>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/http_head.h"
#include "cli/scripted.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;

Result<HttpResponse> ask(HttpClient client) {
  return client.exchange({.method = "GET", .target = "/x"}, Millis(60'000));
}

std::string answerTo(std::string bytes, size_t step = SIZE_MAX) {
  Scripted server({std::move(bytes)}, step);
  const auto response = ask(server.client());
  return response ? std::to_string(response->head.status) + " " + response->body
                  : response.error().message;
}

TEST(HttpClient, EveryFramingInAnyPieces) {
  for (const size_t step : {size_t{1}, size_t{3}, SIZE_MAX}) {
    EXPECT_EQ(answerTo("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", step), "200 hello");
    EXPECT_EQ(answerTo("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: 1\r\n\r\n",
                       step),
              "200 hello world");
    EXPECT_EQ(answerTo("HTTP/1.0 200 OK\r\n\r\nuntil close", step), "200 until close");
    EXPECT_EQ(answerTo("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", step),
              "204 ");
  }
}

TEST(HttpClient, SendsKeyHostAndBody) {
  Scripted server({"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
  HttpClient client = server.client();
  ASSERT_TRUE(client.exchange({.method = "POST", .target = "/v1/x", .body = "{}"}));
  EXPECT_THAT(server.request(), HasSubstr("POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nContent-Length: 2\r\n"));
}

TEST(HttpClient, ReusesTheConnection) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Scripted server({answer, answer}, SIZE_MAX, true);
  HttpClient client = server.client();
  EXPECT_TRUE(client.exchange({.method = "GET", .target = "/"}));
  EXPECT_EQ(client.exchange({.method = "GET", .target = "/"})->body, "ok");
}

TEST(HttpClient, AsksAgainWhenTheIdleConnectionWasClosed) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Scripted server({answer, answer});
  HttpClient client = server.client();
  EXPECT_TRUE(client.exchange({.method = "GET", .target = "/"}));
  EXPECT_EQ(client.exchange({.method = "GET", .target = "/"})->body, "ok");
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpClient, RefusesWhatIsAmbiguousOrBroken) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "closed the connection"},
      {"HTTP/1.1 200", "broke off"},
      {"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/2 200\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/1.1 999 X\r\n\r\n", "status is out of range"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "broke off"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "malformed"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "malformed"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "ambiguous"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "ambiguous"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", "malformed chunk"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", "malformed chunk"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n", "malformed chunk"},
      {"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "malformed header"},
      {"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n", "malformed header"},
      {"HTTP/1.1 200 OK\r\nX: a\x01\r\n\r\n", "control character"},
      {"HTTP/1.1 101 Switching\r\n\r\n", "another protocol"},
  };
  for (const auto& [bytes, wanted] : cases)
    EXPECT_THAT(answerTo(bytes), HasSubstr(wanted)) << bytes;
}

TEST(HttpClient, HeadsAndBodiesAreBounded) {
  EXPECT_THAT(answerTo("HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'a')),
              HasSubstr("large a head"));
  std::string fields = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 200; ++i)
    fields += "X" + std::to_string(i) + ": y\r\n";
  EXPECT_THAT(answerTo(fields + "\r\n"), HasSubstr("too many header"));
  EXPECT_THAT(
      answerTo("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(100'000, '1')),
      HasSubstr("malformed chunk"));
  std::string flood = "HTTP/1.0 200 OK\r\n\r\n";
  flood.resize(HttpClient::kMaxBody + (size_t{1} << 20), 'x');
  EXPECT_THAT(answerTo(std::move(flood)), HasSubstr("too large"));
}

TEST(HttpClient, ASilentServerTimesOut) {
  const Fd listener = *supervisor::listenOn("127.0.0.1:0", Millis(0));
  HttpClient client(*parseUrl("http://" + supervisor::addressOf(listener.get())), "");
  const auto response = client.exchange({.method = "GET", .target = "/"}, Millis(50));
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("does not answer in time"));
}

TEST(HttpClient, AnInterruptEndsTheWait) {
  const Fd listener = *supervisor::listenOn("127.0.0.1:0", Millis(0));
  const Fd event(::eventfd(1, EFD_CLOEXEC));
  HttpClient client(*parseUrl("http://" + supervisor::addressOf(listener.get())), "", event.get());
  ASSERT_FALSE(client.exchange({.method = "GET", .target = "/"}, Millis(60'000)));
  EXPECT_TRUE(client.interrupted());
}

TEST(HttpClient, NobodyListening) {
  std::string address;
  {
    const Fd listener = *supervisor::listenOn("127.0.0.1:0", Millis(0));
    address = supervisor::addressOf(listener.get());
  }
  const auto response = ask({*parseUrl("http://" + address), ""});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_THAT(response.error().message, HasSubstr("Connection refused"));
}

// Whatever bytes come, the client ends, in bounded time and memory.
TEST(HttpClient, RandomAnswers) {
  std::mt19937 random(20'260'101);  // a fixed seed: a failure repeats
  const std::string pieces[] = {"HTTP/1.1 ",
                                "200",
                                " OK",
                                "\r\n",
                                "\r\n\r\n",
                                "Content-Length: ",
                                "Transfer-Encoding: chunked",
                                "5",
                                "0",
                                "ffffffff",
                                "hello",
                                "\n",
                                ":",
                                ";",
                                std::string("\0", 1),
                                "\xff"};
  for (int round = 0; round < 300; ++round) {
    std::string bytes = random() % 2 == 0 ? "HTTP/1.1 200 OK\r\n" : "";
    for (size_t n = random() % 20; n > 0; --n)
      bytes += pieces[random() % std::size(pieces)];
    const auto start = base::monotonicNow();
    answerTo(bytes, 1 + random() % 7);
    EXPECT_LT(base::monotonicNow() - start, std::chrono::seconds(5)) << bytes;
  }
}

TEST(Url, Parts) {
  const auto url = parseUrl("http://example.org:81/base/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, 81);
  EXPECT_EQ(url->prefix, "/base");
  EXPECT_EQ(parseUrl("http://[::1]:8750")->authority(), "[::1]:8750");
  EXPECT_EQ(parseUrl("http://h")->authority(), "h:80");
  for (const char* bad :
       {"ftp://h", "h:80", "http://", "http://:80", "http://h:0", "http://h:99999", "http://u@h",
        "http://h\r\nX: y", "http://[::1", "http://h?q"}) {
    EXPECT_FALSE(parseUrl(bad)) << bad;
  }
}

TEST(PercentEncode, OnlyUnreservedStays) {
  EXPECT_EQ(percentEncode("exec_0-9.~"), "exec_0-9.~");
  EXPECT_EQ(percentEncode("../a b\xff"), "..%2Fa%20b%FF");
}

}  // namespace
}  // namespace cloister::cli
