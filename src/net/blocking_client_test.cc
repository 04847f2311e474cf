// SPDX-License-Identifier: Apache-2.0
// The client against a scripted server: any answer, in any pieces, possibly hostile.
#include "net/blocking_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/scripted_testing.h"

namespace cloister::net {
namespace {

using testing::HasSubstr;

Result<HttpResponse> ask(BlockingClient client) {
  return client.exchange({.method = "GET", .target = "/x"}, Millis(60'000));
}

std::string answerTo(std::string bytes, size_t step = SIZE_MAX) {
  Scripted server({std::move(bytes)}, step);
  const auto response = ask(server.client());
  return response ? std::to_string(response->head.status) + " " + response->body
                  : response.error().message;
}

TEST(BlockingClient, EveryFramingInAnyPieces) {
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

TEST(BlockingClient, SendsKeyHostAndBody) {
  Scripted server({"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
  BlockingClient client = server.client();
  ASSERT_TRUE(client.exchange({.method = "POST", .target = "/v1/x", .body = "{}"}));
  EXPECT_THAT(server.request(), HasSubstr("POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nContent-Length: 2\r\n"));
}

TEST(BlockingClient, ReusesTheConnection) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Scripted server({answer, answer}, SIZE_MAX, true);
  BlockingClient client = server.client();
  EXPECT_TRUE(client.exchange({.method = "GET", .target = "/"}));
  EXPECT_EQ(client.exchange({.method = "GET", .target = "/"})->body, "ok");
}

TEST(BlockingClient, AsksAgainWhenTheIdleConnectionWasClosed) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Scripted server({answer, answer});
  BlockingClient client = server.client();
  EXPECT_TRUE(client.exchange({.method = "GET", .target = "/"}));
  EXPECT_EQ(client.exchange({.method = "GET", .target = "/"})->body, "ok");
  EXPECT_EQ(server.connections(), 2);
}

TEST(BlockingClient, RefusesWhatIsAmbiguousOrBroken) {
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
      {"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", "malformed header"},
      {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "ambiguous"},
      {"HTTP/1.1 101 Switching\r\n\r\n", "another protocol"},
  };
  for (const auto& [bytes, wanted] : cases)
    EXPECT_THAT(answerTo(bytes), HasSubstr(wanted)) << bytes;
}

TEST(BlockingClient, HeadsAndBodiesAreBounded) {
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
  flood.resize(BlockingClient::kMaxBody + (size_t{1} << 20), 'x');
  EXPECT_THAT(answerTo(std::move(flood)), HasSubstr("too large"));
}

TEST(BlockingClient, AnAnswerDuringAnUploadIsBounded) {
  Scripted server({"HTTP/1.1 100" + std::string(200'000, 'a')}, SIZE_MAX);
  BlockingClient client = server.client();
  int pieces = 0;
  const auto response = client.exchange(
      {.method = "PUT", .target = "/x", .source = sourceOf([&]() -> Result<std::string> {
                                          return ++pieces > 9 ? "" : "piece";
                                        })},
      Millis(60'000));
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("large a head"));
}

TEST(BlockingClient, AServerWithBytesAtAllTimesIsLateTheSame) {
  std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 2'000; ++i)
    chunks += "1;" + std::string(60'000, 'x') + "\r\na\r\n";
  Scripted server({std::move(chunks)}, SIZE_MAX);
  BlockingClient client = server.client();
  const auto response = client.exchange({.method = "GET", .target = "/x"}, Millis(1));
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("in time"));
}

TEST(BlockingClient, ASilentServerTimesOut) {
  const Loopback listener;
  BlockingClient client(listener.endpoint());
  const auto response = client.exchange({.method = "GET", .target = "/"}, Millis(50));
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("does not answer in time"));
}

TEST(BlockingClient, AnInterruptEndsTheWait) {
  const Loopback listener;
  const Fd event(::eventfd(1, EFD_CLOEXEC));
  BlockingClient client(listener.endpoint(), event.get());
  ASSERT_FALSE(client.exchange({.method = "GET", .target = "/"}, Millis(60'000)));
  EXPECT_TRUE(client.interrupted());
}

// The descriptor of the first connection, behind whose request `text` has been sent.
Fd answered(const Loopback& listener, std::string_view text) {
  pollfd polled{listener.fd(), POLLIN, 0};
  ::poll(&polled, 1, 60'000);
  Fd peer(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  char request[4096];
  EXPECT_GT(::recv(peer.get(), request, sizeof request, 0), 0);
  EXPECT_EQ(::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  return peer;
}

TEST(BlockingClient, APauseInTheBodyLosesNothing) {
  const Loopback listener;
  BlockingClient client(listener.endpoint());
  Fd peer;
  std::thread server([&] {
    peer = answered(listener, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe");
  });
  const auto head = client.open({.method = "GET", .target = "/"});
  server.join();
  ASSERT_TRUE(head);
  std::string body;
  EXPECT_EQ(client.read(body, Millis(60'000)), BlockingClient::Piece::kData);
  EXPECT_EQ(client.read(body, Millis(0)), BlockingClient::Piece::kTimeout);
  EXPECT_EQ(client.read(body, Millis(20)), BlockingClient::Piece::kTimeout);
  constexpr std::string_view kRest = "llo\r\n0\r\n\r\n";
  ::send(peer.get(), kRest.data(), kRest.size(), MSG_NOSIGNAL);
  EXPECT_EQ(client.read(body, Millis(60'000)), BlockingClient::Piece::kData);
  EXPECT_EQ(client.read(body, Millis(60'000)), BlockingClient::Piece::kEnd);
  EXPECT_EQ(body, "hello");
}

TEST(BlockingClient, AnUpgradeHandsTheConnectionOver) {
  const Loopback listener;
  BlockingClient client(listener.endpoint());
  Fd peer;
  std::thread server(
      [&] { peer = answered(listener, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nfirst"); });
  const auto head = client.open(
      {.method = "GET", .target = "/", .headers = {{"Connection", "Upgrade"}, {"Upgrade", "x"}}});
  server.join();
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 101);
  std::string rest;
  const auto socket = client.detach(rest);
  ASSERT_TRUE(socket);
  EXPECT_EQ(rest, "first");
  EXPECT_NE(::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::send(socket->get(), "ping", 4, MSG_NOSIGNAL), 4);
  char bytes[8] = {};
  EXPECT_EQ(::recv(peer.get(), bytes, sizeof bytes, 0), 4);
  EXPECT_STREQ(bytes, "ping");
}

TEST(BlockingClient, EndlessInterimAnswersEnd) {
  std::string interim;
  for (int i = 0; i < 1000; ++i)
    interim += "HTTP/1.1 102 Processing\r\n\r\n";
  EXPECT_THAT(answerTo(interim), HasSubstr("does not answer"));
}

TEST(BlockingClient, NobodyListening) {
  const Endpoint nobody = Loopback().endpoint();
  const auto response = ask(BlockingClient(nobody));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_THAT(response.error().message, HasSubstr("Connection refused"));
}

// The client ends in bounded time and memory, for any bytes.
TEST(BlockingClient, RandomAnswers) {
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

TEST(BaseUrl, Parts) {
  const auto url = parseBaseUrl("http://example.org:81/base/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, "81");
  EXPECT_EQ(url->target, "/base");
  EXPECT_EQ(parseBaseUrl("http://[::1]:8750")->authority(), "[::1]:8750");
  EXPECT_EQ(parseBaseUrl("http://h")->authority(), "h:80");
  for (const char* bad :
       {"ftp://h", "h:80", "http://", "http://:80", "http://h:0", "http://h:99999", "http://u@h",
        "http://h\r\nX: y", "http://[::1", "http://h?q"}) {
    EXPECT_FALSE(parseBaseUrl(bad)) << bad;
  }
}

TEST(PercentEncode, OnlyUnreservedStays) {
  EXPECT_EQ(percentEncode("exec_0-9.~"), "exec_0-9.~");
  EXPECT_EQ(percentEncode("../a b\xff"), "..%2Fa%20b%FF");
}

}  // namespace
}  // namespace cloister::net
