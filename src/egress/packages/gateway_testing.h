// SPDX-License-Identifier: Apache-2.0
// A gateway over an index of the test's own: an HTTP server of loopback with fixed answers.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "egress/packages/gateway.h"

namespace cloister::egress {

class GatewayTest : public testing::Test {
 protected:
  using tcp = boost::asio::ip::tcp;
  static constexpr auto kQuietly = boost::asio::as_tuple(boost::asio::use_awaitable);
  template <class T>
  using Task = boost::asio::awaitable<T>;

  struct Answer {
    std::string head = "HTTP/1.1 200 OK\r\n";
    std::string type = "application/json";
    std::string body = {};
    std::string more = {};           // further fields
    bool length = true;              // else until the end of the connection
    size_t cut = std::string::npos;  // of the body: no more bytes come
    bool stall = false;              // and the connection stays open
  };

  GatewayTest() {
    async::spawn(io.get_executor(), serve());
    patience_.expires_after(std::chrono::seconds(30));
    patience_.async_wait([](boost::system::error_code error) {
      if (!error) std::abort();
    });
  }

  void start() {
    std::map<model::Ecosystem, PackageOrigin> origins;
    for (const auto& [ecosystem, path] :
         {std::pair(model::Ecosystem::kPypi, "/simple"), std::pair(model::Ecosystem::kNpm, "")}) {
      UpstreamOptions own = options;
      own.index = {.tls = false, .host = "127.0.0.1", .port = port(), .target = path};
      own.dial = [this](std::string host, uint16_t to, bool is_own) -> Task<Result<Fd>> {
        dialled.push_back(host + ":" + std::to_string(to) + (is_own ? " own" : ""));
        if (host != "127.0.0.1") co_return fail(Code::kUnavailable, "no such host in the test");
        tcp::socket socket(io);
        const auto [error] = co_await socket.async_connect(
            tcp::endpoint(boost::asio::ip::address_v4::loopback(), to), kQuietly);
        if (error) co_return fail(Code::kUnavailable, error.message());
        co_return Fd(socket.release());
      };
      origins[ecosystem].upstream = std::make_unique<PackageUpstream>(std::move(own));
    }
    gateway = std::make_unique<PackageGateway>(io.get_executor(), std::move(origins), bounds);
  }

  [[nodiscard]] uint16_t port() const { return listener_.local_endpoint().port(); }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(port()); }

  GatewayAnswer get(model::Ecosystem ecosystem, std::string path, std::string accept = "",
                    std::string method = "GET") {
    if (!gateway) start();
    return run(gateway->answer({.ecosystem = ecosystem,
                                .method = std::move(method),
                                .path = std::move(path),
                                .accept = std::move(accept),
                                .tenant = tenant},
                               std::make_shared<const model::PlanPackages>(packages), use));
  }
  GatewayAnswer pypi(std::string path, std::string accept = "") {
    return get(model::Ecosystem::kPypi, std::move(path), std::move(accept));
  }
  GatewayAnswer npm(std::string path, std::string accept = "") {
    return get(model::Ecosystem::kNpm, std::move(path), std::move(accept));
  }
  // The whole file of an answer, or what came before it was cut.
  std::pair<std::string, bool> whole(GatewayAnswer& answer) {
    if (!answer.file) return {answer.body, true};
    std::string all;
    while (true) {
      const auto piece = run(answer.file->next());
      if (!piece) return {all, false};
      if (piece->empty()) return {all, true};
      all += *piece;
    }
  }
  static std::string ruleOf(const GatewayAnswer& answer) {
    return answer.refusal ? std::string(packageRuleName(answer.refusal->rule)) : "";
  }

  template <class T>
  T run(Task<T> task) {
    return async::runTask(io, std::move(task));
  }

  boost::asio::io_context io;
  std::map<std::string, Answer> answers;  // by path
  std::vector<std::string> asked;         // the requests' heads
  std::vector<std::string> dialled;
  UpstreamOptions options = quick();
  GatewayBounds bounds;
  model::PlanPackages packages{.ecosystems = {model::Ecosystem::kPypi, model::Ecosystem::kNpm}};
  GatewayUse use = std::make_shared<size_t>(0);
  std::string tenant = "acme";
  std::unique_ptr<PackageGateway> gateway;

 private:
  static UpstreamOptions quick() {
    UpstreamOptions options;
    options.timeout = Millis(2'000);
    return options;
  }
  Task<void> serve() {
    while (true) {
      auto [error, socket] = co_await listener_.async_accept(kQuietly);
      if (error) co_return;
      async::spawn(io.get_executor(), answer(std::make_shared<tcp::socket>(std::move(socket))));
    }
  }
  Task<void> answer(std::shared_ptr<tcp::socket> socket) {
    std::string head;
    while (!head.contains("\r\n\r\n")) {
      char byte = 0;
      const auto [error, count] =
          co_await socket->async_read_some(boost::asio::buffer(&byte, 1), kQuietly);
      if (error) co_return;
      head += byte;
    }
    asked.push_back(head);
    const size_t from = head.find(' ') + 1;
    const auto found = answers.find(head.substr(from, head.find(' ', from) - from));
    const Answer none{.head = "HTTP/1.1 404 Not Found\r\n"};
    const Answer answer = found == answers.end() ? none : found->second;
    std::string text = answer.head + "Content-Type: " + answer.type + "\r\n" + answer.more;
    if (answer.length) text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
    text += "\r\n" + answer.body.substr(0, answer.cut);
    co_await boost::asio::async_write(*socket, boost::asio::buffer(text), kQuietly);
    if (answer.stall) stalled_.push_back(socket);
  }

  tcp::acceptor listener_{io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  boost::asio::steady_timer patience_{io};
  std::vector<std::shared_ptr<tcp::socket>> stalled_;
};

}  // namespace cloister::egress
