// SPDX-License-Identifier: Apache-2.0
#include "auth/connection.h"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace cloister::auth {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using UnixStream = beast::basic_stream<asio::local::stream_protocol>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kMaxHead = 16'384;
constexpr unsigned kVersion = 11;

template <class T>
using Task = asio::awaitable<T>;
using Opened = Result<std::unique_ptr<Connection>>;

template <class Stream>
class Held final : public Connection {
 public:
  Held(Stream stream, Url url) : stream_(std::move(stream)), url_(std::move(url)) {}

  Task<Result<HttpAnswer>> exchange(const HttpRequest& request, size_t max_bytes,
                                    base::Monotonic deadline) override {
    answered_ = reusable_ = false;
    beast::get_lowest_layer(stream_).expires_at(deadline);
    const auto [write_error, written] = co_await http::async_write(stream_, request, kTuple);
    if (write_error) co_return unreached(url_, write_error.message());
    beast::flat_buffer buffer(kMaxHead + max_bytes);
    http::response_parser<http::string_body> parser;
    parser.header_limit(kMaxHead);
    parser.body_limit(max_bytes);
    const auto [read_error, read] = co_await http::async_read(stream_, buffer, parser, kTuple);
    answered_ = parser.got_some();
    if (read_error) co_return unreached(url_, read_error.message());
    beast::get_lowest_layer(stream_).expires_never();
    // More than the answer is none that was asked for.
    reusable_ = parser.keep_alive() && buffer.size() == 0;
    co_return parser.release();
  }
  [[nodiscard]] bool answered() const override { return answered_; }
  [[nodiscard]] bool reusable() const override { return reusable_; }

 private:
  Stream stream_;
  Url url_;
  bool answered_ = false;
  bool reusable_ = false;
};

template <class Stream>
Opened held(Stream stream, const Url& url) {
  return std::make_unique<Held<Stream>>(std::move(stream), url);
}

Task<Opened> connectUnix(const Url& url, base::Monotonic deadline) {
  UnixStream stream(co_await asio::this_coro::executor);
  stream.expires_at(deadline);
  const asio::local::stream_protocol::endpoint endpoint(url.socket);
  const auto [error] = co_await stream.async_connect(endpoint, kTuple);
  if (error) co_return unreached(url, error.message());
  co_return held(std::move(stream), url);
}

Task<Opened> secure(beast::tcp_stream plain, asio::ssl::context& tls, const Url& url) {
  asio::ssl::stream<beast::tcp_stream> stream(std::move(plain), tls);
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
  if (SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str()) != 1) {
    co_return unreached(url, "its name cannot be sent");
  }
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kTuple);
  if (error) co_return unreached(url, "TLS: " + error.message());
  // Its end is not waited for: the length of an answer says whether that is complete.
  co_return held(std::move(stream), url);
}

}  // namespace

std::unexpected<Error> unreached(const Url& url, std::string_view what) {
  return fail(Code::kUnavailable, "reaching " + (url.socket.empty() ? url.host : url.socket) +
                                      ": " + std::string(what));
}

asio::awaitable<Opened> connect(const Url& url, asio::ssl::context& tls, base::Monotonic deadline) {
  if (!url.socket.empty()) co_return co_await connectUnix(url, deadline);
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto [error, found] = co_await resolver.async_resolve(url.host, url.port, kTuple);
  if (error) co_return unreached(url, error.message());
  beast::tcp_stream stream(executor);
  stream.expires_at(deadline);
  const auto [connect_error, endpoint] = co_await stream.async_connect(found, kTuple);
  if (connect_error) co_return unreached(url, connect_error.message());
  stream.socket().set_option(tcp::no_delay(true));
  if (url.tls) co_return co_await secure(std::move(stream), tls, url);
  co_return held(std::move(stream), url);
}

HttpRequest makeRequest(const Url& url, http::verb verb, const Posted& posted) {
  const bool v6 = url.host.contains(':');
  const std::string name = v6 ? "[" + url.host + "]" : url.host;
  HttpRequest request(verb, url.target, kVersion);
  request.set(http::field::host, url.socket.empty() ? name + ":" + url.port : name);
  request.set(http::field::accept, "application/json");
  request.set(http::field::user_agent, "cloister");
  if (verb != http::verb::post) return request;
  request.set(http::field::content_type, "application/json");
  for (const auto& [header, value] : posted.headers)
    request.set(header, value);
  request.body() = posted.body;
  request.prepare_payload();
  return request;
}

}  // namespace cloister::auth
