// SPDX-License-Identifier: Apache-2.0
// The server's bounds for a client, a tenant and all of them: memory, time, connections.
#include "api/http/http_server_fixture.h"

namespace cloister::api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Whether the answer refuses, in time.
bool isRefused(const std::string& answer, base::Monotonic until) {
  const bool late = base::monotonicNow() > until;
  EXPECT_FALSE(late) << answer;
  return late || answer.starts_with("HTTP/1.1 503 ");
}

base::Monotonic soon() {
  return base::monotonicNow() + std::chrono::seconds(20);
}

TEST_F(HttpServerTest, BoundsAllBodiesTogether) {
  serve({.bodies_bytes = 100}, [&]() -> Task<void> {
    tcp::socket first = co_await connect();
    const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 80\r\n";
    const std::string whole = head + "Connection: close\r\n\r\n" + std::string(80, 'x');
    co_await send(first, head + "\r\nx");
    while (handler_.open == 0)
      co_await pause(Millis(1));
    EXPECT_THAT(co_await exchange(whole), StartsWith("HTTP/1.1 200 ")) << "what is announced";
    co_await send(first, std::string(78, 'x'));
    std::string refused;
    for (const auto until = soon(); !isRefused(refused, until);)  // once the bytes have come
      refused = co_await exchange(whole);
    first.close();
    std::string answer;
    while (!answer.starts_with("HTTP/1.1 200")) {  // the first client's share is free again
      answer = co_await exchange(
          "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
          "Connection: close\r\n\r\nabc");
    }
    EXPECT_THAT(answer, EndsWith("abc"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, ATenantsBodiesLeaveRoomForOthers) {
  serve({.body_bytes = 60, .bodies_bytes = 200}, [&]() -> Task<void> {
    const std::string rest = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n";
    const std::string whole = rest + "Connection: close\r\n\r\n" + std::string(60, 'x');
    tcp::socket first = co_await connect();
    co_await send(first, "POST /echo?as=acme" + rest + "\r\n" + std::string(59, 'x'));
    while (handler_.open == 0)
      co_await pause(Millis(1));
    std::string refused;
    for (const auto until = soon();
         !isRefused(refused, until);)  // once the first client's bytes have come
      refused = co_await exchange("POST /echo?as=acme" + whole);
    EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
    EXPECT_THAT(co_await exchange("POST /echo?as=other" + whole), StartsWith("HTTP/1.1 200 "));
    context_.stop();
  });
}

TEST_F(HttpServerTest, APartIsKeptForTenantsThatSendLittle) {
  serve({.body_bytes = 20, .bodies_bytes = 200, .fairness = {.kept_percent = 12}},
        [&]() -> Task<void> {
          const std::string rest = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n";
          const std::string whole = rest + "Connection: close\r\n\r\n" + std::string(20, 'x');
          std::vector<tcp::socket> held;
          for (const char* tenant : {"a", "a", "a", "a", "a", "b", "b", "b", "b"}) {
            held.push_back(co_await connect());
            co_await send(held.back(), std::string("POST /echo?as=") + tenant + rest + "\r\n" +
                                           std::string(19, 'x'));
          }
          std::string refused;
          for (const auto until = soon(); !isRefused(refused, until);)  // once all bytes have come
            refused = co_await exchange("POST /echo?as=b" + whole);
          EXPECT_THAT(co_await exchange("POST /echo?as=c" + whole), StartsWith("HTTP/1.1 200 "));
          context_.stop();
        });
}

TEST_F(HttpServerTest, ABodyThatWasReadTakesNoRoom) {
  serve({.body_bytes = 60, .bodies_bytes = 60}, [&]() -> Task<void> {
    const std::string whole =
        " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\nConnection: close\r\n\r\n" +
        std::string(60, 'x');
    tcp::socket waits = co_await connect();
    co_await send(waits, "POST /slow" + whole);
    while (handler_.handling == 0)
      co_await pause(Millis(1));
    EXPECT_THAT(co_await exchange("POST /echo" + whole), StartsWith("HTTP/1.1 200 "));
    handler_.release();
    EXPECT_THAT(co_await drain(waits), StartsWith("HTTP/1.1 200 "));
    context_.stop();
  });
}

TEST_F(HttpServerTest, DropsASlowHeadAndASlowBody) {
  serve({.body_rate = 1'000'000, .head_time = Millis(50), .body_grace = Millis(50)},
        [&]() -> Task<void> {
          tcp::socket head = co_await connect();
          co_await send(head, "GET / HTTP/1.1\r\nHost: loc");
          EXPECT_EQ(co_await drain(head), "");
          tcp::socket body = co_await connect();
          co_await send(body,
                        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx");
          EXPECT_EQ(co_await drain(body), "");
          context_.stop();
        });
}

TEST_F(HttpServerTest, DropsAnIdleConnection) {
  serve({.idle = Millis(50)}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/hello", ""));
    EXPECT_THAT(co_await drain(socket), EndsWith("hello"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, DropsAReaderThatDoesNotRead) {
  serve({.write_stall = Millis(100)}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    socket.set_option(asio::socket_base::receive_buffer_size(4096));
    co_await send(socket, get("/stream"));
    while (handler_.statuses.empty())
      co_await pause(Millis(5));
    EXPECT_EQ(handler_.open, 0u);
    EXPECT_LT(handler_.flooded, size_t{8} << 20);
    context_.stop();
  });
}

// Unread answers stay in memory: a tenant has a bounded share of the memory.
TEST_F(HttpServerTest, BoundsTheAnswersThatATenantDoesNotRead) {
  serve({.answers_bytes = 3 << 20}, [&]() -> Task<void> {
    tcp::socket slow = co_await connect();
    co_await send(slow, get("/large/one"));
    EXPECT_THAT(co_await readSome(slow, 15), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(co_await exchange(get("/large/one")), StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(co_await exchange(get("/small/one")), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(co_await exchange(get("/large/other")), StartsWith("HTTP/1.1 200"));
    co_await drain(slow);
    EXPECT_THAT(co_await exchange(get("/large/one")), StartsWith("HTTP/1.1 200"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, MakesRoomForARequestAmongSilentConnections) {
  serve({.connections = 8}, [&]() -> Task<void> {
    std::vector<tcp::socket> silent;
    for (int i = 0; i < 32; ++i) {
      silent.push_back(co_await connect());
      co_await send(silent.back(), "GET / HTTP/1.1\r\nHost: ");
    }
    EXPECT_THAT(co_await exchange(get("/hello")), EndsWith("hello"));
    EXPECT_LE(handler_.open, 8u);
    context_.stop();
  });
}

TEST_F(HttpServerTest, TurnsAwayWhenAllConnectionsAreAtWork) {
  serve({.connections = 2}, [&]() -> Task<void> {
    tcp::socket first = co_await connect();
    tcp::socket second = co_await connect();
    co_await send(first, get("/stream"));
    co_await send(second, get("/stream"));
    co_await readSome(first, 100);
    co_await readSome(second, 100);
    EXPECT_THAT(co_await exchange(get("/hello")), StartsWith("HTTP/1.1 503 "));
    context_.stop();
  });
}

}  // namespace
}  // namespace cloister::api
