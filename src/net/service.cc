// SPDX-License-Identifier: Apache-2.0
#include "net/service.h"

#include <utility>

namespace cloister::net {
namespace {

namespace asio = boost::asio;

constexpr size_t kMostIdle = 8;
constexpr int kDone = 200;

}  // namespace

asio::awaitable<Result<std::string>> Service::post(Posted posted, FetchLimits limits) {
  const auto deadline = base::monotonicNow() + limits.timeout;
  const HttpRequest request = postOf(url_, posted);
  HttpResponse answer = CO_TRY(co_await ask(request, limits.bytes, deadline));
  if (answer.head.status != kDone) {
    co_return unreached(url_, "it answers with " + std::to_string(answer.head.status));
  }
  co_return std::move(answer.body);
}

asio::awaitable<Result<HttpResponse>> Service::ask(const HttpRequest& request, size_t max_bytes,
                                                   base::Monotonic deadline) {
  if (!idle_.empty()) {
    HttpConnection kept = std::move(idle_.back());
    idle_.pop_back();
    auto answer = co_await kept.exchange(request, max_bytes, deadline);
    const bool final = answer || kept.answered() || base::monotonicNow() >= deadline;
    keep(std::move(kept));
    if (final) co_return answer;
    idle_.clear();  // closed by the peer, like the other connections of the same age
  }
  HttpConnection fresh = CO_TRY(co_await connect(url_, tls_, deadline));
  auto answer = co_await fresh.exchange(request, max_bytes, deadline);
  keep(std::move(fresh));
  co_return answer;
}

void Service::keep(HttpConnection connection) {
  if (connection.reusable() && idle_.size() < kMostIdle) idle_.push_back(std::move(connection));
}

}  // namespace cloister::net
