// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/upstream.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <boost/json/stream_parser.hpp>

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using base::monotonicNow;

constexpr int kMostRedirects = 5;

bool isRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::unexpected<Error> unusable(const UpstreamUrl& url, const std::string& why) {
  return fail(Code::kUnavailable, "the package index at " + url.authority() + " " + why);
}

// The answer's status as an error; nothing for 200.
Result<> checkStatus(const UpstreamUrl& url, const net::HttpHead& head) {
  if (head.status == 404 || head.status == 410) {
    return fail(Code::kNotFound, "the package index does not have it");
  }
  if (head.status == 401 || head.status == 403) {
    return unusable(url, "refuses the service's credentials (" + std::to_string(head.status) +
                             "); ask the operator to check the credentials_file");
  }
  if (head.status != 200) return unusable(url, "answers " + std::to_string(head.status));
  const std::string coding = head.header("content-encoding");
  if (!coding.empty() && coding != "identity") {
    return unusable(url, "sends a coding that was not asked for");
  }
  return {};
}

// Takes a document apart piece by piece, so that a large one does not keep others waiting.
class JsonReader {
 public:
  Result<> feed(std::string_view bytes) {
    boost::system::error_code error;
    parser_.write(bytes.data(), bytes.size(), error);
    return error ? malformed(error) : Result<>{};
  }
  Result<json::value> finish() {
    boost::system::error_code error;
    parser_.finish(error);
    if (error) return std::unexpected(malformed(error).error());
    return parser_.release();
  }

 private:
  static Result<> malformed(const boost::system::error_code& error) {
    return fail(Code::kUnavailable, "the package index sends malformed JSON: " + error.message());
  }
  boost::json::stream_parser parser_;
};

bool isJson(const net::HttpHead& head) {
  const std::string type = head.header("content-type");
  const std::string essence = type.substr(0, type.find_first_of("; "));
  return essence == "application/json" || essence.ends_with("+json");
}

}  // namespace

struct PackageUpstream::Opened {
  net::HttpConnection connection;
  net::HttpHead head;
  UpstreamUrl url;
};

Result<> PackageUpstream::mayFollow(const UpstreamUrl& url, bool file) const {
  if (url.sameOrigin(options_.index)) return {};
  const bool known = std::ranges::find(options_.file_hosts, url.host) != options_.file_hosts.end();
  constexpr uint16_t kTlsPort = 443;
  if (file && known && url.tls && url.port == kTlsPort) return {};
  return fail(Code::kDenied, "the package index leads to " + url.authority() +
                                 ", which is not one of its hosts for files (file_hosts)");
}

PackageUpstream::Task<Result<net::HttpConnection>> PackageUpstream::connect(const UpstreamUrl& url,
                                                                            base::Monotonic until) {
  const bool own = url.sameOrigin(options_.index);
  Fd socket = CO_TRY(co_await options_.dial(url.host, url.port, own));
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    co_return failErrno("getsockname");
  }
  const auto executor = co_await asio::this_coro::executor;
  net::ClientStream stream(executor, {at.ss_family, 0}, std::move(socket));
  stream.expiresAt(until);
  if (url.tls) {
    const auto error = co_await stream.secure(*options_.tls, url.host);
    if (error) co_return unusable(url, "cannot be reached: " + stream.tlsFault(error));
  }
  co_return net::HttpConnection(std::move(stream), url.authority(),
                                "asking the package index at " + url.authority());
}

PackageUpstream::Task<Result<PackageUpstream::Opened>> PackageUpstream::open(
    UpstreamUrl url, std::string accept, bool file, base::Monotonic until) {
  for (int i = 0; i <= kMostRedirects; ++i) {
    CO_TRY(mayFollow(url, file));
    net::HttpConnection connection = CO_TRY(co_await connect(url, until));
    net::HttpRequest request{.method = "GET", .target = url.target, .accept = accept};
    request.headers["User-Agent"] = "cloister";
    request.headers["Connection"] = "close";
    if (!options_.authorization.empty() && url.sameOrigin(options_.index)) {
      request.headers["Authorization"] = options_.authorization;
    }
    net::HttpHead head = CO_TRY(co_await connection.open(request, until));
    if (!isRedirect(head.status)) {
      CO_TRY(checkStatus(url, head));
      co_return Opened{std::move(connection), std::move(head), std::move(url)};
    }
    auto next = resolveUrl(url, head.header("location"));
    if (!next) co_return unusable(url, "sends a redirect that cannot be read");
    url = *std::move(next);
  }
  co_return unusable(url, "redirects too often");
}

PackageUpstream::Task<Result<PackageUpstream::Document>> PackageUpstream::document(
    std::string path, std::string accept) {
  const base::Monotonic until = monotonicNow() + options_.timeout;
  UpstreamUrl url = options_.index;
  url.target += path;
  Opened opened = CO_TRY(co_await open(std::move(url), std::move(accept), false, until));
  const bool is_json = isJson(opened.head);
  JsonReader reader;
  std::string text;
  size_t bytes = 0;
  while (true) {
    std::string piece;
    const auto got = CO_TRY(co_await opened.connection.read(piece, until));
    using Piece = net::HttpConnection::Piece;
    if (got == Piece::kTimeout || monotonicNow() >= until) {
      co_return unusable(opened.url, "does not finish its answer in time");
    }
    if (got == Piece::kEnd) break;
    bytes += piece.size();
    if (bytes > options_.most_index) {
      co_return unusable(opened.url, "sends a document over " +
                                         std::to_string(options_.most_index >> 20U) +
                                         " MiB (packages.index_mb)");
    }
    if (is_json) {
      CO_TRY(reader.feed(piece));
    } else {
      text += piece;
    }
  }
  Document document{.content = std::move(text), .url = std::move(opened.url), .bytes = bytes};
  if (is_json) document.content = CO_TRY(reader.finish());
  co_return document;
}

PackageUpstream::Task<Result<PackageUpstream::Body>> PackageUpstream::file(UpstreamUrl url) {
  const base::Monotonic until = monotonicNow() + options_.timeout;
  Opened opened = CO_TRY(co_await open(std::move(url), "*/*", true, until));
  std::optional<uint64_t> length;
  const std::string text = opened.head.header("content-length");
  constexpr size_t kMostDigits = 15;
  const bool number = !text.empty() && text.size() <= kMostDigits &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (number) length = std::stoull(text);
  co_return Body{std::move(opened.connection), length};
}

PackageUpstream::Task<Result<std::string>> PackageUpstream::next(Body& body) const {
  std::string piece;
  const auto got = CO_TRY(co_await body.connection.read(piece, monotonicNow() + options_.timeout));
  if (got == net::HttpConnection::Piece::kTimeout) {
    co_return fail(Code::kUnavailable, "the package index does not go on in time");
  }
  co_return piece;
}

}  // namespace cloister::egress
