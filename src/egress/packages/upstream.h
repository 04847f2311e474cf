// SPDX-License-Identifier: Apache-2.0
// PackageUpstream: an index over HTTP, as the gateway asks it. Its answers are hostile: heads and
// bodies are bounded in size and time, codings are refused, and a redirect is followed only to the
// index itself, or for a file to one of the hosts for files. The credentials go to the index alone.
// One thread. Outlives its exchanges.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "egress/packages/upstream_url.h"
#include "net/http_connection.h"

namespace cloister::egress {

// A connected socket. `own`: the index itself, whose address may be private, since the operator
// configured it; any other host has to be public.
using DialUpstream = std::function<boost::asio::awaitable<Result<base::Fd>>(
    std::string host, uint16_t port, bool own)>;

struct UpstreamOptions {
  UpstreamUrl index;          // its target without a "/" at the end
  std::string authorization;  // the value of the header; "": none
  std::vector<std::string> file_hosts;
  std::shared_ptr<boost::asio::ssl::context> tls;
  DialUpstream dial;
  Millis timeout{60'000};  // for an index, and between bytes of a file
  size_t most_index = size_t{32} << 20;
};

class PackageUpstream {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  explicit PackageUpstream(UpstreamOptions options) : options_(std::move(options)) {}

  // The document at `path`, which is encoded and begins with "/": as JSON if its type is one of
  // JSON, else as text. kNotFound: the index has none. kUnavailable: no usable answer came in time.
  struct Document {
    std::variant<base::json::value, std::string> content;
    UpstreamUrl url;   // behind the redirects
    size_t bytes = 0;  // as received
  };
  Task<Result<Document>> document(std::string path, std::string accept);

  // A file at a URL of a document. Errors as above, and kDenied for a URL that is not followed.
  struct Body {
    net::HttpConnection connection;
    std::optional<uint64_t> length;
  };
  Task<Result<Body>> file(UpstreamUrl url);
  // The next bytes of a file; "" at its end.
  Task<Result<std::string>> next(Body& body) const;

  [[nodiscard]] const UpstreamUrl& index() const { return options_.index; }

 private:
  struct Opened;
  Task<Result<Opened>> open(UpstreamUrl url, std::string accept, bool file, base::Monotonic until);
  Task<Result<net::HttpConnection>> connect(const UpstreamUrl& url, base::Monotonic until);
  [[nodiscard]] Result<> mayFollow(const UpstreamUrl& url, bool file) const;

  UpstreamOptions options_;
};

}  // namespace cloister::egress
