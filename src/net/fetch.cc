// SPDX-License-Identifier: Apache-2.0
#include "net/fetch.h"

#include <algorithm>

#include <boost/beast/http/status.hpp>

#include "net/http_connection.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxUrl = 2048;

bool isLoopback(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

// One exchange over a connection of its own.
asio::awaitable<Result<HttpAnswer>> send(const Url& url, asio::ssl::context& tls,
                                         HttpRequest request, FetchLimits limits) {
  request.set(http::field::connection, "close");
  const auto deadline = base::monotonicNow() + limits.timeout;
  const auto connection = CO_TRY(co_await connect(url, tls, deadline));
  co_return co_await connection->exchange(request, limits.bytes, deadline);
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
  auto answer = CO_TRY(co_await send(url, tls, makeRequest(url, http::verb::get), limits));
  if (answer.result() != http::status::ok) {
    co_return unreached(url, "it answers with " + std::to_string(answer.result_int()));
  }
  co_return std::move(answer.body());
}

asio::awaitable<Result<>> post(Url url, asio::ssl::context& tls, Posted posted,
                               FetchLimits limits) {
  const auto answer =
      CO_TRY(co_await send(url, tls, makeRequest(url, http::verb::post, posted), limits));
  if (http::to_status_class(answer.result()) != http::status_class::successful) {
    co_return unreached(url, "it answers with " + std::to_string(answer.result_int()));
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

}  // namespace cloister::net
