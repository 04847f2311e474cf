// SPDX-License-Identifier: Apache-2.0
// Service: a frequently used other service, over connections kept between requests. A kept
// connection closed by the peer is replaced, once per request, before any byte of the answer; so
// requests must be safe to repeat. On the io thread.
#pragma once

#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/fetch.h"
#include "net/http_connection.h"
#include "net/url.h"

namespace cloister::net {

class Service {
 public:
  Service(Url url, boost::asio::ssl::context tls) : url_(std::move(url)), tls_(std::move(tls)) {}

  // The body of an answer with status 200; kUnavailable for every other, and for none within
  // `limits`. The caller keeps the service alive.
  boost::asio::awaitable<Result<std::string>> post(Posted posted, FetchLimits limits);

  [[nodiscard]] const Url& url() const { return url_; }

 private:
  boost::asio::awaitable<Result<HttpResponse>> ask(const HttpRequest& request, size_t max_bytes,
                                                   base::Monotonic deadline);
  void keep(HttpConnection connection);

  Url url_;
  boost::asio::ssl::context tls_;
  std::vector<HttpConnection> idle_;
};

}  // namespace cloister::net
