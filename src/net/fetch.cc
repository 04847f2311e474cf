// SPDX-License-Identifier: Apache-2.0
#include "net/fetch.h"

#include <utility>

namespace cloister::net {
namespace {

namespace asio = boost::asio;

constexpr int kOk = 200;
constexpr int kSuccess = 2;  // the class of 2xx
constexpr int kClass = 100;

HttpRequest requestOf(std::string_view method, const Url& url) {
  HttpRequest request{.method = method, .target = url.target};
  request.headers = {{"User-Agent", "cloister"}};
  return request;
}

// A request and its answer over a separate connection.
asio::awaitable<Result<HttpResponse>> send(const Url& url, asio::ssl::context& tls,
                                           HttpRequest request, FetchLimits limits) {
  request.headers["Connection"] = "close";
  const auto deadline = base::monotonicNow() + limits.timeout;
  HttpConnection connection = CO_TRY(co_await connect(url, tls, deadline));
  co_return co_await connection.exchange(request, limits.bytes, deadline);
}

}  // namespace

HttpRequest postOf(const Url& url, const Posted& posted) {
  HttpRequest request = requestOf("POST", url);
  request.headers.insert(posted.headers.begin(), posted.headers.end());
  request.body = posted.body;
  request.type = posted.type;
  return request;
}

asio::awaitable<Result<std::string>> fetch(Url url, asio::ssl::context& tls, FetchLimits limits) {
  HttpResponse answer = CO_TRY(co_await send(url, tls, requestOf("GET", url), limits));
  if (answer.head.status != kOk) {
    co_return unreached(url, "it answers with " + std::to_string(answer.head.status));
  }
  co_return std::move(answer.body);
}

asio::awaitable<Result<>> post(Url url, asio::ssl::context& tls, Posted posted,
                               FetchLimits limits) {
  const HttpResponse answer = CO_TRY(co_await send(url, tls, postOf(url, posted), limits));
  if (answer.head.status / kClass != kSuccess) {
    co_return unreached(url, "it answers with " + std::to_string(answer.head.status));
  }
  co_return Result<>{};
}

asio::awaitable<Result<HttpResponse>> postForAnswer(Url url, asio::ssl::context& tls, Posted posted,
                                                    FetchLimits limits) {
  co_return co_await send(url, tls, postOf(url, posted), limits);
}

}  // namespace cloister::net
