// SPDX-License-Identifier: Apache-2.0
// One exchange with another service: a document of the identity provider, or a notification for a
// webhook. Over HTTPS with strict verification, or over HTTP with loopback. Bounded in time and
// size; no redirect is followed, since where it leads to is not for the answer to say. On the io
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/http_connection.h"
#include "net/url.h"

namespace cloister::net {

struct FetchLimits {
  Millis timeout{5'000};
  size_t bytes = size_t{256} << 10;
};

boost::asio::awaitable<Result<std::string>> fetch(Url url, boost::asio::ssl::context& tls,
                                                  FetchLimits limits);

// A body with more headers. Neither names nor values may have line ends.
struct Posted {
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string type = "application/json";
};
// The request for a post. Keep `posted` until the end of the request.
HttpRequest postOf(const Url& url, const Posted& posted);
// Done with any answer of success (2xx).
boost::asio::awaitable<Result<>> post(Url url, boost::asio::ssl::context& tls, Posted posted,
                                      FetchLimits limits);

// The answer, of any status.
boost::asio::awaitable<Result<HttpResponse>> postForAnswer(Url url, boost::asio::ssl::context& tls,
                                                           Posted posted, FetchLimits limits);

}  // namespace cloister::net
