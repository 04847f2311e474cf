// SPDX-License-Identifier: Apache-2.0
// One connection to another service, over which requests are made one after the other: TCP, TLS or
// a UNIX socket. The one HTTP client of the server; fetch.h makes single exchanges with it, Service
// keeps connections. On the io thread.
#pragma once

#include <memory>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/fetch.h"

namespace cloister::net {

using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;
using HttpAnswer = boost::beast::http::response<boost::beast::http::string_body>;

class HttpConnection {
 public:
  virtual ~HttpConnection() = default;
  // The whole answer, of at most `max_bytes`, whose status the caller judges; kUnavailable
  // otherwise.
  virtual boost::asio::awaitable<Result<HttpAnswer>> exchange(const HttpRequest& request,
                                                              size_t max_bytes,
                                                              base::Monotonic deadline) = 0;
  // Of the last exchange: whether anything of an answer came, and whether another may follow.
  [[nodiscard]] virtual bool answered() const = 0;
  [[nodiscard]] virtual bool reusable() const = 0;
};

// Connected, with the certificate verified. kUnavailable. The look-up of a name is not bounded.
boost::asio::awaitable<Result<std::unique_ptr<HttpConnection>>> connect(
    const Url& url, boost::asio::ssl::context& tls, base::Monotonic deadline);

// With the headers that every request has.
HttpRequest makeRequest(const Url& url, boost::beast::http::verb verb, const Posted& posted = {});

// "reaching HOST: what"
std::unexpected<Error> unreached(const Url& url, std::string_view what);

}  // namespace cloister::net
