// SPDX-License-Identifier: Apache-2.0
// The server against raw bytes over real sockets; server and client share an io thread.
#include "api/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include <boost/asio/local/stream_protocol.hpp>

#include "api/http/http_server_fixture.h"

namespace cloister::api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(HttpServerTest, AnswersWithTheSafeHeaders) {
  serve({}, [&]() -> Task<void> {
    const std::string answer = co_await exchange(get("/hello"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
    EXPECT_THAT(answer, HasSubstr("Cache-Control: no-store\r\n"));
    EXPECT_THAT(answer, HasSubstr("X-Request-Id: req_"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\nhello"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, KeepsAliveAndPipelines) {
  serve({}, [&]() -> Task<void> {
    const std::string answers = co_await exchange(get("/one", "") + get("/two", "") + get("/end"));
    EXPECT_THAT(answers, HasSubstr("\r\n\r\noneHTTP/1.1 200"));
    EXPECT_THAT(answers, HasSubstr("\r\n\r\ntwoHTTP/1.1 200"));
    EXPECT_THAT(answers, EndsWith("\r\n\r\nend"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, Speaks10) {
  serve({}, [&]() -> Task<void> {
    const std::string answer = co_await exchange("GET /three HTTP/1.0\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.0 200 OK\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\nonetwothree"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, ChunksAStreamAndGoesOn) {
  serve({}, [&]() -> Task<void> {
    const std::string answers = co_await exchange(get("/three", "") + get("/end"));
    EXPECT_THAT(answers, HasSubstr("3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\nHTTP/1.1 200"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  serve({}, [&]() -> Task<void> {
    const std::string answer =
        co_await exchange("HEAD /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, ReadsABodyAfterContinue) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket,
                  "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Length: 4\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(co_await readSome(socket, 25), "HTTP/1.1 100 Continue\r\n\r\n");
    co_await send(socket, "body");
    EXPECT_THAT(co_await drain(socket), EndsWith("\r\n\r\nbody"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, StreamsABodyOfAnyLength) {
  serve({.body_bytes = 10}, [&]() -> Task<void> {
    const std::string head = "POST /upload HTTP/1.1\r\nHost: localhost\r\n";
    std::string answers = co_await exchange(
        head + "Content-Length: 1000000\r\n\r\n" + std::string(1'000'000, 'x') + head +
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n" + head +
        "Content-Length: 0\r\n\r\n" + head + "\r\n" + get("/hello", "Connection: close\r\n"));
    for (const std::string_view body : {"\r\n\r\n1000000HTTP", "\r\n\r\n7HTTP", "\r\n\r\n0HTTP"})
      EXPECT_THAT(answers, HasSubstr(body));
    EXPECT_THAT(answers, EndsWith("hello"));
    EXPECT_LE(handler_.largest_piece, 65'536U);
    context_.stop();
  });
}

TEST_F(HttpServerTest, BoundsAStreamedBody) {
  serve({}, [&]() -> Task<void> {
    const std::string head = "POST /upload HTTP/1.1\r\nHost: localhost\r\n";
    EXPECT_THAT(co_await exchange(head + "Content-Length: 1048577\r\n\r\n"),
                StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(co_await exchange(head + "Transfer-Encoding: chunked\r\n\r\n100001\r\n"),
                StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(co_await exchange(head + "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
                StartsWith("HTTP/1.1 400 "));
    context_.stop();
  });
}

TEST_F(HttpServerTest, LeavesWithTheClientWhatAHandlerDoesNotAskFor) {
  handler_.pause_after = 1;
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket,
                  "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
                  "Connection: close\r\n\r\nx");
    while (handler_.taken == 0)
      co_await pause(Millis(1));
    const size_t paused_at = handler_.taken;
    co_await send(socket, std::string(100'000, 'x'));  // fits into the kernel's buffers
    EXPECT_EQ(handler_.taken, paused_at);
    handler_.pause_after = SIZE_MAX;
    handler_.release();
    co_await send(socket, std::string(899'999, 'x'));
    EXPECT_THAT(co_await drain(socket), EndsWith("\r\n\r\n1000000"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, ClosesAfterABodyThatWasNotReadToItsEnd) {
  serve({}, [&]() -> Task<void> {
    const std::string answer = co_await exchange(
        "POST /ignore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + get("/hello"));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, EndsWith("ignore"));
    context_.stop();
  });
}

TEST_F(HttpServerTest, TellsAHandlerOfABodyThatBreaksOff) {
  serve({.body_rate = 1'000'000, .body_grace = Millis(50)}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx");
    EXPECT_EQ(co_await drain(socket), "");
    while (handler_.statuses.empty()) {
      co_await pause(Millis(1));
    }
    EXPECT_EQ(handler_.statuses.front(), 408);
    context_.stop();
  });
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyIsRead) {
  serve({}, [&]() -> Task<void> {
    const std::string answer = co_await exchange(
        "POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" +
        get("/hello"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, Not(HasSubstr("200 OK")));
    context_.stop();
  });
}

// The size of a wrong credential must not make its answer differ.
TEST_F(HttpServerTest, ACredentialThatIsTooLargeIsOneThatNobodyHas) {
  serve({.head_bytes = 1024}, [&]() -> Task<void> {
    const std::string large(5000, 'x');
    const auto ask = [&](std::string path, std::string headers) {
      return exchange("GET /" + path + " HTTP/1.1\r\n" + headers + "\r\n\r\n");
    };
    const std::string token = "Authorization: Bearer " + large;
    EXPECT_THAT(co_await ask("refused", "Host: h\r\n" + token), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(co_await ask("refused", token + "\r\nHost: h"), StartsWith("HTTP/1.1 401 "));
    const std::string first = "Cookie: " + std::string(800, 'c') + "\r\n";
    EXPECT_THAT(co_await ask("refused", first + token), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(co_await ask("hello", token), StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(co_await ask("refused", "Host: h\r\nCookie: " + large),
                StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(co_await ask("refused", "Authorization: Bearer x\r\nCookie: " + large),
                StartsWith("HTTP/1.1 431 "));
    EXPECT_EQ(handler_.handling, 0);
    context_.stop();
  });
}

// The same where the head comes in pieces, and its first lines have been read.
TEST_F(HttpServerTest, ACredentialThatGrowsTooLargeIsOneThatNobodyHas) {
  serve({.head_bytes = 16'384}, [&]() -> Task<void> {
    const std::string large(100'000, 'x');
    const std::string head = " HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n";
    const std::string token = "Authorization: Bearer " + large + "\r\n\r\n";
    EXPECT_THAT(co_await exchange("GET /refused" + head + token), StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(co_await exchange("GET /hello" + head + token), StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(co_await exchange("GET /refused" + head + "Cookie: " + large + "\r\n\r\n"),
                StartsWith("HTTP/1.1 431 "));
    context_.stop();
  });
}

TEST_F(HttpServerTest, LetsGoOfAClientThatLeaves) {
  serve({}, [&]() -> Task<void> {
    for (const std::string next : {"", "GET /hello"}) {  // sent during the wait
      {
        tcp::socket socket = co_await connect();
        const size_t before = handler_.handling;
        co_await send(socket, get("/slow"));
        while (handler_.handling == before)
          co_await pause(Millis(1));
        co_await send(socket, next);
      }
      while (handler_.open != 0)  // without waiting for the run's end
        co_await pause(Millis(1));
    }
    handler_.release();
    context_.stop();
  });
}

TEST_F(HttpServerTest, RefusesForeignOriginsAndHosts) {
  serve({},
        [&]() -> Task<void> {
          const auto with = [&](std::string headers) {
            return exchange("GET /hello HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
          };
          EXPECT_THAT(co_await with("Host: localhost\r\nOrigin: https://evil.test\r\n"),
                      StartsWith("HTTP/1.1 403 "));
          EXPECT_THAT(co_await with("Host: localhost\r\nOrigin: null\r\n"),
                      StartsWith("HTTP/1.1 403 "));
          EXPECT_THAT(co_await with("Host: LOCALHOST:80\r\nOrigin: http://localhost:80\r\n"),
                      StartsWith("HTTP/1.1 200 "));
          EXPECT_THAT(co_await with("Host: evil.test\r\n"), StartsWith("HTTP/1.1 421 "));
          EXPECT_THAT(co_await with("Host: localhost.evil.test:8750\r\n"),
                      StartsWith("HTTP/1.1 421 "));
          EXPECT_THAT(co_await with("Host: [::1]:8750\r\n"), StartsWith("HTTP/1.1 200 "));
          EXPECT_THAT(co_await with("Host: my.box\r\n"), StartsWith("HTTP/1.1 200 "));
          context_.stop();
        },
        {.hosts = {"My.Box"}});
}

TEST_F(HttpServerTest, KeepsFaultsAndForgedHeadersIn) {
  serve({}, [&]() -> Task<void> {
    const std::string fault = co_await exchange(get("/throw"));
    EXPECT_THAT(fault, StartsWith("HTTP/1.1 500 "));
    EXPECT_THAT(fault, Not(HasSubstr("secret")));
    EXPECT_THAT(co_await exchange(get("/inject")), Not(HasSubstr("X-Evil")));
    context_.stop();
  });
}

TEST_F(HttpServerTest, SpeaksWebSocket) {
  // The client does not answer the closing handshake; head_time bounds the wait.
  serve({.head_time = Millis(50)}, [&]() -> Task<void> {
    const std::string answer = co_await exchange(
        get("/ws",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 101 "));
    EXPECT_THAT(answer, HasSubstr("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));  // RFC 6455 §1.3
    EXPECT_THAT(answer, HasSubstr(std::string("\x81\x05hello\x81\x03") + "bye"));
    context_.stop();
  });
}

constexpr std::string_view kWithKey = "X-API-Key: key_1\r\n";
constexpr std::string_view kHandshake =
    "X-API-Key: key_1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

// At once, once the server is told to look.
TEST_F(HttpServerTest, AStreamEndsWithItsCredential) {
  serve({}, [&]() -> Task<void> {
    tcp::socket mine = co_await connect();
    tcp::socket other = co_await connect();
    co_await send(mine, get("/stream", kWithKey));
    co_await send(other, get("/stream", "X-API-Key: key_2\r\n"));
    EXPECT_THAT(co_await readSome(mine, 12), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(co_await readSome(other, 12), StartsWith("HTTP/1.1 200"));
    server_->lookAtCredentials();
    EXPECT_EQ((co_await readSome(mine, 65'536)).size(), 65'536U) << "it stands";
    handler_.revoked = {"key_1"};
    server_->lookAtCredentials();
    EXPECT_THAT(co_await drain(mine), Not(EndsWith("0\r\n\r\n"))) << "and says it is cut short";
    EXPECT_EQ((co_await readSome(other, 1 << 20)).size(), 1U << 20) << "another's goes on";
    context_.stop();
  });
}

// The server looks by itself: no caller reports an expiry.
TEST_F(HttpServerTest, AStreamEndsAtTheEndOfItsCredential) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/stream", kWithKey));
    EXPECT_THAT(co_await readSome(socket, 12), StartsWith("HTTP/1.1 200"));
    handler_.revoked = {"key_1"};
    std::ignore = co_await drain(socket);
    EXPECT_EQ(handler_.open, 0U);
    EXPECT_GT(handler_.all_looks, 0U) << "others are told of the look";
    context_.stop();
  });
}

TEST_F(HttpServerTest, AWebSocketSaysThatItsCredentialIsLost) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/ws-long", kHandshake));
    EXPECT_THAT(co_await readSome(socket, 12), StartsWith("HTTP/1.1 101"));
    while (handler_.conversing == 0)
      co_await pause(Millis(1));
    handler_.revoked = {"key_1"};
    server_->lookAtCredentials();
    const std::string rest = co_await drain(socket);  // the client does not answer the farewell
    EXPECT_THAT(rest, HasSubstr(std::string("\x03\xf0the credential is expired or revoked")));
    EXPECT_EQ(handler_.open, 1U) << "it counts until its conversation is over";
    handler_.release();
    context_.stop();
  });
}

// The client takes nothing, so the farewell waits for the previous message.
TEST_F(HttpServerTest, AWebSocketThatIsStuckEndsWithItsCredential) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/ws-flood", kHandshake));
    EXPECT_THAT(co_await readSome(socket, 12), StartsWith("HTTP/1.1 101"));
    for (size_t before = SIZE_MAX; before != handler_.poured;) {
      before = handler_.poured;
      co_await pause(Millis(50));
    }
    handler_.revoked = {"key_1"};
    server_->lookAtCredentials();
    while (handler_.open > 0)
      co_await pause(Millis(1));
    context_.stop();
  });
}

// Its head was let in, and its handler has seen nothing yet.
TEST_F(HttpServerTest, ARequestThatIsStillArrivingBeginsNothing) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, "POST /echo HTTP/1.1\r\nHost: localhost\r\n" + std::string(kWithKey) +
                              "Content-Length: 10\r\n\r\nhalf");
    while (handler_.looks["key_1"] == 0) {
      server_->lookAtCredentials();
      co_await pause(Millis(1));
    }
    handler_.revoked = {"key_1"};
    server_->lookAtCredentials();
    co_await send(socket, "+whole");
    EXPECT_EQ(co_await drain(socket), "");
    EXPECT_EQ(handler_.handling, 0U);
    context_.stop();
  });
}

// Nobody looks again before: the next regular look would come too late.
TEST_F(HttpServerTest, TheMomentOfAnAnswerEndsByItself) {
  serve({}, [&]() -> Task<void> {
    handler_.revoked = {"key_1"};
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/slow", kWithKey));
    EXPECT_EQ(co_await drain(socket), "");
    EXPECT_EQ(handler_.looks["key_1"], 1U);
    handler_.release();
    context_.stop();
  });
}

TEST_F(HttpServerTest, WhatIsClosedIsNotLookedAt) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/slow", kWithKey));
    while (handler_.handling == 0)
      co_await pause(Millis(1));
    socket.close();
    while (handler_.open > 0)
      co_await pause(Millis(1));
    const size_t looks = handler_.looks["key_1"];
    server_->lookAtCredentials();
    EXPECT_EQ(handler_.looks["key_1"], looks);
    handler_.release();
    context_.stop();
  });
}

TEST_F(HttpServerTest, CredentialsEndWhileTheServerStops) {
  serve({}, [&]() -> Task<void> {
    tcp::socket socket = co_await connect();
    co_await send(socket, get("/stream", kWithKey));
    EXPECT_THAT(co_await readSome(socket, 12), StartsWith("HTTP/1.1 200"));
    co_await server_->stop(Millis(0));
    handler_.revoked = {"key_1"};
    std::ignore = co_await drain(socket);
    EXPECT_EQ(handler_.open, 0U);
    context_.stop();
  });
}

// A client that revokes its own key receives the answer; longer answers are cut off.
TEST_F(HttpServerTest, AnAnswerHasAMomentAfterItsCredential) {
  serve({}, [&]() -> Task<void> {
    handler_.revoked = {"key_1"};
    tcp::socket quick = co_await connect();
    tcp::socket other = co_await connect();
    for (tcp::socket* socket : {&quick, &other})
      co_await send(*socket, get("/slow", kWithKey));
    while (handler_.handling < 2)
      co_await pause(Millis(1));
    server_->lookAtCredentials();
    handler_.release();
    for (tcp::socket* socket : {&quick, &other}) {
      const std::string answer = co_await drain(*socket);
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
      EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    }
    tcp::socket slow = co_await connect();
    co_await send(slow, get("/slow", kWithKey));
    EXPECT_EQ(co_await drain(slow), "") << "nobody let it go on";
    handler_.release();
    context_.stop();
  });
}

// Uploads still arriving, and streams that begin after the credential is lost.
TEST_F(HttpServerTest, UploadsAndLateStreamsEndWithTheirCredential) {
  serve({}, [&]() -> Task<void> {
    tcp::socket upload = co_await connect();
    co_await send(upload, "POST /upload HTTP/1.1\r\nHost: localhost\r\n" + std::string(kWithKey) +
                              "Content-Length: 1000\r\n\r\nhalf");
    while (handler_.taken == 0)
      co_await pause(Millis(1));
    handler_.revoked = {"key_1"};
    server_->lookAtCredentials();
    std::ignore = co_await drain(upload);
    tcp::socket late = co_await connect();
    co_await send(late, get("/slow-stream", kWithKey));
    while (handler_.handling < 2)
      co_await pause(Millis(1));
    server_->lookAtCredentials();
    handler_.release();
    EXPECT_THAT(co_await drain(late), StartsWith("HTTP/1.1 401"));
    EXPECT_EQ(handler_.flooded, 0U);
    context_.stop();
  });
}

TEST_F(HttpServerTest, StopsInOrder) {
  serve({}, [&]() -> Task<void> {
    tcp::socket idle = co_await connect();
    tcp::socket busy = co_await connect();
    co_await send(busy, get("/slow"));
    while (handler_.handling == 0)
      co_await pause(Millis(1));
    co_await server_->stop(Millis(0));
    EXPECT_EQ(co_await drain(idle), "");
    handler_.release();
    EXPECT_THAT(co_await drain(busy), EndsWith("slow"));
    co_await server_->stop(Millis(10'000));
    EXPECT_EQ(handler_.open, 0u);
    tcp::socket late(context_);
    const auto [error] =
        co_await late.async_connect({asio::ip::address_v4::loopback(), port_}, kTuple);
    EXPECT_TRUE(error);
    context_.stop();
  });
}

TEST_F(HttpServerTest, ListensOnAUnixSocketAndRefusesNonsense) {
  HttpServer server(context_.get_executor(), {}, {});
  for (const char* bad : {"", "localhost", "localhost:", "localhost:99999", "host.name:1",
                          "unix:", "[::1:80", ":80"}) {
    EXPECT_FALSE(server.listen(bad)) << bad;
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("api-test." + std::to_string(::getpid())))
          .string();
  const auto bound = server.listen("unix:" + path);
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(*bound, "unix:" + path);
  server.start(handler_);
  std::string answer;
  asio::co_spawn(
      context_,
      [&]() -> Task<void> {
        asio::local::stream_protocol::socket socket(context_);
        co_await socket.async_connect(path, asio::use_awaitable);
        const std::string bytes = get("/hello");
        co_await asio::async_write(socket, asio::buffer(bytes), asio::use_awaitable);
        co_await asio::async_read(socket, asio::dynamic_buffer(answer), kTuple);
        context_.stop();
      },
      asio::use_future);
  context_.run_for(std::chrono::seconds(10));
  std::filesystem::remove(path);
  EXPECT_THAT(answer, EndsWith("hello"));
}

}  // namespace
}  // namespace cloister::api