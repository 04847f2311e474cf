// SPDX-License-Identifier: Apache-2.0
#include "auth/fetch.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
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
using boost::system::error_code;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kMaxHead = 16'384;
constexpr size_t kMaxUrl = 2048;
constexpr unsigned kVersion = 11;

template <class T>
using Task = asio::awaitable<T>;

std::unexpected<Error> failed(const Url& url, std::string_view what) {
  return fail(Code::kUnavailable, "reaching " + url.host + ": " + std::string(what));
}

bool isLoopback(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

using Message = http::request<http::string_body>;

Message message(const Url& url, http::verb verb) {
  const bool v6 = url.host.contains(':');
  const std::string name = v6 ? "[" + url.host + "]" : url.host;
  Message request(verb, url.target, kVersion);
  request.set(http::field::host, name + ":" + url.port);
  request.set(http::field::accept, "application/json");
  request.set(http::field::user_agent, "cloister");
  request.set(http::field::connection, "close");
  return request;
}

// The whole answer, whose status the caller judges.
template <class Stream>
Task<Result<http::response<http::string_body>>> exchange(Stream& stream, const Url& url,
                                                         const Message& request, size_t max_bytes) {
  const auto [write_error, written] = co_await http::async_write(stream, request, kTuple);
  if (write_error) co_return failed(url, write_error.message());
  beast::flat_buffer buffer(kMaxHead + max_bytes);
  http::response_parser<http::string_body> parser;
  parser.header_limit(kMaxHead);
  parser.body_limit(max_bytes);
  const auto [read_error, read] = co_await http::async_read(stream, buffer, parser, kTuple);
  if (read_error) co_return failed(url, read_error.message());
  co_return parser.release();
}

Task<Result<http::response<http::string_body>>> secured(beast::tcp_stream plain,
                                                        asio::ssl::context& tls, const Url& url,
                                                        const Message& request, size_t max_bytes) {
  asio::ssl::stream<beast::tcp_stream> stream(std::move(plain), tls);
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
  if (SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str()) != 1) {
    co_return failed(url, "its name cannot be sent");
  }
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kTuple);
  if (error) co_return failed(url, "TLS: " + error.message());
  // Its end is not waited for: the length of the answer says whether that is complete.
  co_return co_await exchange(stream, url, request, max_bytes);
}

Task<Result<http::response<http::string_body>>> send(const Url& url, asio::ssl::context& tls,
                                                     const Message& request, FetchLimits limits) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto [error, found] = co_await resolver.async_resolve(url.host, url.port, kTuple);
  if (error) co_return failed(url, error.message());
  beast::tcp_stream stream(executor);
  stream.expires_after(limits.timeout);  // for all that follows
  const auto [connect_error, endpoint] = co_await stream.async_connect(found, kTuple);
  if (connect_error) co_return failed(url, connect_error.message());
  if (url.tls) co_return co_await secured(std::move(stream), tls, url, request, limits.bytes);
  co_return co_await exchange(stream, url, request, limits.bytes);
}

}  // namespace

Result<Url> parseUrl(std::string_view text) {
  const auto bad = [] {
    return fail(Code::kInvalid, "must be an https:// URL, or http:// of this machine's loopback");
  };
  const auto odd = [](char c) { return c <= ' ' || c > '~' || c == '@' || c == '#' || c == '\\'; };
  if (text.size() > kMaxUrl || std::ranges::any_of(text, odd)) return bad();
  Url url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) return bad();
  text.remove_prefix(text.find("//") + 2);
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end);
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  url.port = url.tls ? "443" : "80";
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return bad();
  if (const size_t colon = authority.find(':', bracket); colon != std::string_view::npos) {
    url.port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
    constexpr size_t kMaxDigits = 5;
    if (url.port.empty() || url.port.size() > kMaxDigits ||
        url.port.find_first_not_of("0123456789") != std::string::npos) {
      return bad();
    }
  }
  url.host = bracket > 0 ? authority.substr(1, authority.size() - 2) : authority;
  if (url.host.empty() || (!url.tls && !isLoopback(url.host))) return bad();
  return url;
}

asio::awaitable<Result<std::string>> fetch(Url url, asio::ssl::context& tls, FetchLimits limits) {
  const Message request = message(url, http::verb::get);
  auto answer = CO_TRY(co_await send(url, tls, request, limits));
  if (answer.result() != http::status::ok) {
    co_return failed(url, "it answers with " + std::to_string(answer.result_int()));
  }
  co_return std::move(answer.body());
}

asio::awaitable<Result<>> post(Url url, asio::ssl::context& tls, Posted posted,
                               FetchLimits limits) {
  Message request = message(url, http::verb::post);
  request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : posted.headers)
    request.set(name, value);
  request.body() = std::move(posted.body);
  request.prepare_payload();
  const auto answer = CO_TRY(co_await send(url, tls, request, limits));
  if (http::to_status_class(answer.result()) != http::status_class::successful) {
    co_return failed(url, "it answers with " + std::to_string(answer.result_int()));
  }
  co_return Result<>{};
}

Result<asio::ssl::context> clientTls(const std::string& ca_file, const std::string& key) {
  asio::ssl::context tls(asio::ssl::context::tls_client);
  error_code error;
  if (ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(ca_file, error);
  }
  if (error) {
    return fail(Code::kInvalid, key + ": " + error.message(), key);
  }
  SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  tls.set_verify_mode(asio::ssl::verify_peer);
  return tls;
}

}  // namespace cloister::auth
