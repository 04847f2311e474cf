// SPDX-License-Identifier: Apache-2.0
// The server and a client of raw bytes over real sockets, on an io thread, for tests.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/http/http_server.h"
#include "api/http/problem.h"

namespace cloister::api {

namespace asio = boost::asio;
using asio::ip::tcp;

inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// /echo gives the body back, /stream writes without end, /three three pieces, /slow waits for
// `release`, /throw throws, /inject tries to smuggle a header, /ws, /ws-long and /ws-flood are
// WebSockets. X-API-Key is the id of a credential.
class Handler : public HttpHandler {
 public:
  explicit Handler(asio::any_io_executor executor)
      : gate_(executor, asio::steady_timer::time_point::max()) {}

  Task<std::optional<Response>> admit(Request& request) override {
    if (request.path[0] == "refused") co_return problem(401, "no");
    if (request.path[0] == "upload" || request.path[0] == "ignore") request.stream_limit = 1 << 20;
    if (!request.query.empty()) request.principal.tenant = request.query[0].second;
    request.credential.id = request.header("x-api-key");
    request.answer_for_credential();
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
    if (path == "ws-long") response.websocket = [this](WebSocket& out) { return converse(out); };
    if (path == "ws-flood") response.websocket = [this](WebSocket& out) { return pour(out); };
    if (path == "ws") response.websocket = [](WebSocket& out) { return greet(out); };
    if (path == "slow-stream") response.stream = [this](BodyWriter& out) { return flood(out); };
    if (path == "slow" || path == "slow-stream") {
      request.body_read();
      request.watch_peer();
      co_await gate_.async_wait(kTuple);
    }
    co_return response;
  }

  void answered(const Request&, int status, double) override { statuses.push_back(status); }
  void connections(size_t n) override { open = n; }
  bool stands(const auth::Credential& credential) override {
    ++looks[credential.id];
    return !revoked.contains(credential.id);
  }
  void looked() override { ++all_looks; }
  void release() { gate_.cancel(); }

  std::deque<int> statuses;
  std::set<std::string> revoked;
  std::map<std::string, size_t> looks;  // at each credential
  size_t all_looks = 0;
  size_t open = 0;
  size_t handling = 0;  // requests that reached the handler
  size_t flooded = 0;
  size_t conversing = 0;  // over WebSockets, until `release`
  size_t poured = 0;      // messages taken by a WebSocket

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
  Task<void> converse(WebSocket& out) {
    std::ignore = co_await out.send("hello");
    ++conversing;
    co_await gate_.async_wait(kTuple);
  }
  Task<void> pour(WebSocket& out) {
    const std::string message(65'536, 'x');
    while (co_await out.send(message))
      ++poured;
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
  // Runs `test` beside the server, and destroys the server before returning.
  void serve(HttpLimits limits, std::function<Task<void>()> test, WebNames names = {}) {
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

inline std::string get(std::string_view path, std::string_view more = "Connection: close\r\n") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "\r\n";
}

}  // namespace cloister::api
