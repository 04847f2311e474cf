// SPDX-License-Identifier: Apache-2.0
#include "net/http_connection.h"

#include <algorithm>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

#include "net/client_stream.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr uint32_t kMaxHead = 16'384;
constexpr size_t kPiece = 16'384;  // read at once; a record of TLS has no more
constexpr unsigned kVersion = 11;

using Opened = Result<std::unique_ptr<HttpConnection>>;
using Parser = http::response_parser<http::string_body>;

// RFC 9112 §3 to §6.
std::string render(const HttpRequest& request) {
  std::string text(request.method_string());
  text.append(" ").append(request.target()).append(" HTTP/1.1\r\n");
  for (const auto& field : request) {
    text.append(field.name_string()).append(": ").append(field.value()).append("\r\n");
  }
  return text.append("\r\n").append(request.body());
}

// Reads until `parser` has the whole answer; more may be in `buffer` then.
asio::awaitable<ClientStream::Error> receive(ClientStream& stream, beast::flat_buffer& buffer,
                                             Parser& parser) {
  ClientStream::Error error;
  while (!parser.is_done()) {
    const size_t room = std::min(kPiece, buffer.max_size() - buffer.size());
    if (room == 0) co_return make_error_code(http::error::buffer_overflow);
    const auto [read_error, n] = co_await stream.read(buffer.prepare(room));
    if (read_error == asio::error::eof) {
      if (!parser.got_some()) co_return make_error_code(http::error::end_of_stream);
      parser.put_eof(error);
      co_return error;
    }
    if (read_error) co_return read_error;
    buffer.commit(n);
    buffer.consume(parser.put(buffer.data(), error));
    if (error == http::error::need_more) error = {};
    if (error) co_return error;
  }
  co_return error;
}

class StreamConnection final : public HttpConnection {
 public:
  StreamConnection(ClientStream stream, Url url)
      : stream_(std::move(stream)), url_(std::move(url)) {}

  asio::awaitable<Result<HttpAnswer>> exchange(const HttpRequest& request, size_t max_bytes,
                                               base::Monotonic deadline) override {
    answered_ = reusable_ = false;
    stream_.expiresAt(deadline);
    const std::string text = render(request);
    const auto write_error = co_await stream_.write(asio::buffer(text));
    if (write_error) co_return unreached(url_, write_error.message());
    beast::flat_buffer buffer(kMaxHead + max_bytes);
    Parser parser;
    parser.header_limit(kMaxHead);
    parser.body_limit(max_bytes);
    parser.eager(true);
    const auto read_error = co_await receive(stream_, buffer, parser);
    answered_ = parser.got_some();
    if (read_error) co_return unreached(url_, read_error.message());
    stream_.expiresNever();
    // More than the answer is none that was asked for.
    reusable_ = parser.keep_alive() && buffer.size() == 0;
    co_return parser.release();
  }
  [[nodiscard]] bool answered() const override { return answered_; }
  [[nodiscard]] bool reusable() const override { return reusable_; }

 private:
  ClientStream stream_;
  Url url_;
  bool answered_ = false;
  bool reusable_ = false;
};

}  // namespace

std::unexpected<Error> unreached(const Url& url, std::string_view what) {
  return fail(Code::kUnavailable, "reaching " + (url.socket.empty() ? url.host : url.socket) +
                                      ": " + std::string(what));
}

asio::awaitable<Opened> connect(const Url& url, asio::ssl::context& tls, base::Monotonic deadline) {
  ClientStream stream(co_await asio::this_coro::executor);
  stream.expiresAt(deadline);
  const auto error = co_await (url.socket.empty() ? stream.connect(url.host, url.port)
                                                  : stream.connect(url.socket));
  if (error) co_return unreached(url, error.message());
  if (url.socket.empty() && url.tls) {
    const auto tls_error = co_await stream.secure(tls, url.host);
    if (tls_error) co_return unreached(url, stream.tlsFault(tls_error));
    // Its end is not waited for: the length of an answer says whether that is complete.
  }
  co_return std::make_unique<StreamConnection>(std::move(stream), url);
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

}  // namespace cloister::net
