// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/upstream.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "base/crypto.h"
#include "base/file.h"
#include "net/trust.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMostHead = 8192;  // of the proxy's answer
constexpr std::string_view kHeadEnd = "\r\n\r\n";

// The status of "HTTP/1.1 200 Connection established"; 0: another protocol.
int statusOf(std::string_view head) {
  constexpr std::string_view kHttp = "HTTP/1.";
  constexpr size_t kStatusAt = 9;
  constexpr size_t kStatusEnd = 12;
  int status = 0;
  if (head.size() < kStatusEnd || !head.starts_with(kHttp) || head[kStatusAt - 1] != ' ') return 0;
  const auto [end, error] =
      std::from_chars(head.data() + kStatusAt, head.data() + kStatusEnd, status);
  return error == std::errc() && end == head.data() + kStatusEnd ? status : 0;
}

bool isOneLine(std::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
}

std::unexpected<Error> badUrl() {
  return fail(Code::kInvalid,
              "must be http://host:port or https://host:port, without a path or credentials");
}

// Reads "user:password" as the value of Proxy-Authorization.
Result<std::string> readCredentials(const std::string& file) {
  constexpr size_t kMostCredentials = 4096;
  std::string line = TRY(base::readFile(file, kMostCredentials));
  while (line.ends_with('\n') || line.ends_with('\r'))
    line.pop_back();
  if (!line.contains(':') || !isOneLine(line)) {
    return fail(Code::kInvalid, file + ": must be one line, user:password");
  }
  return "Basic " + base::toBase64(line);
}

}  // namespace

std::unexpected<Error> refusedByUpstream(const std::string& place, std::string_view cause) {
  return fail(Code::kUnavailable,
              "connecting to " + place + " through egress.upstream: " + std::string(cause));
}

Result<Upstream> readUpstream(std::string_view url, const std::string& credentials_file,
                              const std::string& ca_file) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  const bool tls = url.starts_with(kTls);
  if (!tls && !url.starts_with(kPlain)) return badUrl();
  std::string_view place = url.substr(tls ? kTls.size() : kPlain.size());
  if (place.ends_with('/')) place.remove_suffix(1);
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return badUrl();
  Upstream upstream;
  std::string_view host = place.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string_view digits = place.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), upstream.port);
  if (error != std::errc() || end != digits.data() + digits.size() || upstream.port == 0) {
    return badUrl();
  }
  const bool odd = host.find_first_of("/@?# []") != std::string_view::npos || !isOneLine(host);
  if (host.empty() || odd || bracketed != host.contains(':')) return badUrl();
  upstream.host = host;
  if (!credentials_file.empty()) {
    upstream.authorization = TRY(readCredentials(credentials_file));
  }
  if (tls) {
    upstream.tls =
        std::make_shared<asio::ssl::context>(TRY(net::clientTls(ca_file, "egress.ca_file")));
  }
  return upstream;
}

Result<std::shared_ptr<asio::ssl::context>> readOrigins(const std::string& ca_file) {
  auto tls = TRY(net::clientTls("", "egress.ca_file"));
  boost::system::error_code error;
  if (!ca_file.empty()) tls.load_verify_file(ca_file, error);
  if (error) return fail(Code::kInvalid, "egress.ca_file: " + error.message(), "egress.ca_file");
  ::SSL_CTX_set_options(tls.native_handle(), SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_session_cache_mode(tls.native_handle(), SSL_SESS_CACHE_OFF);
  return std::make_shared<asio::ssl::context>(std::move(tls));
}

asio::awaitable<Result<std::string>> connectThrough(asio::ip::tcp::socket& socket,
                                                    const Upstream& upstream, std::string place) {
  std::string request = "CONNECT " + place + " HTTP/1.1\r\nHost: " + place + "\r\n";
  if (!upstream.authorization.empty()) {
    request += "Proxy-Authorization: " + upstream.authorization + "\r\n";
  }
  request += "\r\n";
  const auto [error, sent] = co_await asio::async_write(socket, asio::buffer(request), kAwait);
  if (error) co_return refusedByUpstream(place, error.message());
  std::string answer;
  size_t end = std::string::npos;
  while ((end = answer.find(kHeadEnd)) == std::string::npos) {
    if (answer.size() >= kMostHead) co_return refusedByUpstream(place, "its answer is too long");
    const size_t have = answer.size();
    answer.resize(kMostHead);
    const auto [failed, count] = co_await socket.async_read_some(
        asio::buffer(answer.data() + have, answer.size() - have), kAwait);
    answer.resize(have + count);
    if (failed) co_return refusedByUpstream(place, failed.message());
  }
  const int status = statusOf(answer);
  if (status < 200 || status > 299) {
    const std::string line = answer.substr(0, answer.find('\r'));
    co_return refusedByUpstream(place,
                                isOneLine(line) ? "it answers " + line : "it does not speak HTTP");
  }
  co_return answer.substr(end + kHeadEnd.size());
}

}  // namespace cloister::egress
