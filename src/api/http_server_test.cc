// SPDX-License-Identifier: Apache-2.0
// The server against raw bytes over real sockets; server and client share one io thread.
#include "api/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <filesystem>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/problem.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// /echo gives the body back, /stream writes without end, /three three pieces, /slow waits for
// `release`, /throw throws, /inject tries to smuggle a header, /ws is a WebSocket.
class Handler : public HttpHandler {
 public:
  explicit Handler(asio::any_io_executor executor)
      : gate_(executor, asio::steady_timer::time_point::max()) {}

  Task<std::optional<Response>> admit(Request& request) override {
    if (request.path[0] == "refused") co_return problem(401, "no");
    if (request.path[0] == "upload" || request.path[0] == "ignore") request.stream_limit = 1 << 20;
    if (!request.query.empty()) request.principal.tenant = request.query[0].second;
    co_return std::nullopt;
  }

  Task<Response> handle(Request& request) override {
    ++handling;
    const std::string& path = request.path[0];
    Response response;
    response.body = path == "echo" ? request.body : path;
    if (path == "upload") {
      const auto all = co_await takeAll(*request.incoming);
      response.body = all ? std::to_string(*all) : "broken";
    }
    if (path == "large") response.body = std::string(2 << 20, 'x');
    if (request.path.size() > 1) request.principal.tenant = request.path[1];
    if (path == "throw") throw std::runtime_error("secret");
    if (path == "inject") response.with("X-Name", "a\r\nX-Evil: 1");
    if (path == "stream") response.stream = [this](BodyWriter& out) { return flood(out); };
    if (path == "three") response.stream = [](BodyWriter& out) { return three(out); };
    if (path == "ws") response.websocket = [](WebSocket& out) { return greet(out); };
    if (path == "slow") {
      request.body_read();
      request.watch_peer();
      co_await gate_.async_wait(kTuple);
    }
    co_return response;
  }

  void answered(const Request&, int status, double) override { statuses.push_back(status); }
  void connections(size_t n) override { open = n; }
  void release() { gate_.cancel(); }

  std::deque<int> statuses;
  size_t open = 0;
  size_t handling = 0;  // requests that got here
  size_t flooded = 0;

  size_t taken = 0;  // of an upload's bytes
  size_t largest_piece = 0;
  size_t pause_after = SIZE_MAX;  // an upload's bytes, until `release`

 private:
  Task<Result<size_t>> takeAll(BodyReader& in) {
    taken = 0;
    while (true) {
      const std::string piece = CO_TRY(co_await in.read());
      if (piece.empty()) co_return taken;
      taken += piece.size();
      largest_piece = std::max(largest_piece, piece.size());
      if (taken >= pause_after) co_await gate_.async_wait(kTuple);
    }
  }
  Task<void> flood(BodyWriter& out) {
    const std::string piece(65'536, 'x');
    while (co_await out.write(piece))
      flooded += piece.size();
  }
  static Task<void> three(BodyWriter& out) {
    for (const std::string_view piece : {"one", "two", "three"}) {
      if (!co_await out.write(piece)) co_return;
    }
  }
  static Task<void> greet(WebSocket& out) {
    for (const std::string text : {"hello", "bye"}) {
      if (!co_await out.send(text)) co_return;
    }
  }

  asio::steady_timer gate_;
};

class HttpServerTest : public testing::Test {
 protected:
  // Runs `test` beside the server, which is gone when it returns.
  void serve(HttpLimits limits, std::function<Task<void>()> test,
             std::vector<std::string> names = {}) {
    HttpServer server(context_.get_executor(), limits, std::move(names));
    const auto bound = server.listen("127.0.0.1:0");
    ASSERT_TRUE(bound) << bound.error().message;
    port_ = static_cast<uint16_t>(std::stoi(bound->substr(bound->rfind(':') + 1)));
    server.start(handler_);
    server_ = &server;
    auto done = asio::co_spawn(context_, std::move(test), asio::use_future);
    context_.run_for(std::chrono::seconds(30));
    ASSERT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::ready) << "timed out";
    done.get();
  }

  Task<tcp::socket> connect() {
    tcp::socket socket(context_);
    co_await socket.async_connect({asio::ip::address_v4::loopback(), port_}, asio::use_awaitable);
    co_return socket;
  }

  Task<void> pause(Millis time) {
    asio::steady_timer timer(context_, time);
    co_await timer.async_wait(kTuple);
  }

  static Task<void> send(tcp::socket& socket, std::string bytes) {
    co_await asio::async_write(socket, asio::buffer(bytes), kTuple);
  }

  // Everything until the server closes.
  static Task<std::string> drain(tcp::socket& socket) {
    std::string bytes;
    co_await asio::async_read(socket, asio::dynamic_buffer(bytes), kTuple);
    co_return bytes;
  }

  static Task<std::string> readSome(tcp::socket& socket, size_t n) {
    std::string bytes(n, '\0');
    const auto [error, got] = co_await asio::async_read(socket, asio::buffer(bytes), kTuple);
    bytes.resize(got);
    co_return bytes;
  }

  Task<std::string> exchange(std::string bytes) {
    tcp::socket socket = co_await connect();
    co_await send(socket, std::move(bytes));
    co_return co_await drain(socket);
  }

  asio::io_context context_;
  Handler handler_{context_.get_executor()};
  HttpServer* server_ = nullptr;
  uint16_t port_ = 0;
};

std::string get(std::string_view path, std::string_view more = "Connection: close\r\n") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "\r\n";
}

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

// Its size must not tell a credential from any other that is wrong.
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

TEST_F(HttpServerTest, BoundsAllBodiesTogether) {
  serve({.bodies_bytes = 100}, [&]() -> Task<void> {
    tcp::socket first = co_await connect();
    co_await send(first, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 80\r\n\r\nx");
    while (handler_.open == 0)
      co_await pause(Millis(1));
    const std::string refused =
        co_await exchange("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 80\r\n\r\n");
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
    first.close();
    std::string answer;
    while (!answer.starts_with("HTTP/1.1 200")) {  // the first one's share comes back
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
    co_await send(first, "POST /echo?as=acme" + rest + "\r\nx");
    while (handler_.open == 0)
      co_await pause(Millis(1));
    const std::string refused = co_await exchange("POST /echo?as=acme" + whole);
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
    EXPECT_THAT(co_await exchange("POST /echo?as=other" + whole), StartsWith("HTTP/1.1 200 "));
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

// What is not read stays in memory: a tenant has only so much of it.
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

TEST_F(HttpServerTest, LetsGoOfAClientThatLeaves) {
  serve({}, [&]() -> Task<void> {
    for (const std::string next : {"", "GET /hello"}) {  // sent while it waits
      {
        tcp::socket socket = co_await connect();
        const size_t before = handler_.handling;
        co_await send(socket, get("/slow"));
        while (handler_.handling == before)
          co_await pause(Millis(1));
        co_await send(socket, next);
      }
      while (handler_.open != 0)  // the run's end is not awaited for that
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
        {"My.Box"});
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
  // The client does not answer the closing handshake, which head_time bounds.
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
