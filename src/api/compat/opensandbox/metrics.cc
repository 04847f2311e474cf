// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/ping and /metrics: whether the sandbox answers, and what its programs use.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/exec_events.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr Millis kEvery{1'000};

json::object metricsOf(const model::Session& sandbox) {
  constexpr double kMillis = 1000;
  constexpr double kPercent = 100;
  constexpr double kMiB = 1 << 20;
  const double cores = sandbox.limits.cpu_millis / kMillis;
  return {{"cpu_count", cores},
          {"cpu_used_pct", sandbox.usage.cpu_millis * kPercent / sandbox.limits.cpu_millis},
          {"mem_total_mib", static_cast<double>(sandbox.limits.memory_bytes) / kMiB},
          {"mem_used_mib", static_cast<double>(sandbox.usage.memory_bytes) / kMiB},
          {"timestamp", base::wallMicros() / 1000}};
}

Task<Result<Response>> ping(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  if (sandbox.status != model::SessionStatus::kRunning) {
    co_return fail(Code::kUnavailable, "the sandbox is not ready yet");
  }
  co_return empty(200);
}

Task<Result<Response>> metrics(Desk& desk, Request& request) {
  co_return jsonResponse(200, metricsOf(CO_TRY(co_await reach(desk, request))));
}

Task<void> sendMetrics(orchestrator::Sessions& sessions, model::Principal principal, std::string id,
                       BodyWriter& out) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  while (true) {
    const auto sandbox = sessions.get(principal, id);
    if (!sandbox || sandbox->status == model::SessionStatus::kEnded) co_return;
    if (!co_await out.write(toBlob(metricsOf(*sandbox)))) co_return;
    timer.expires_after(kEvery);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

Task<Result<Response>> watch(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  Response response;
  response.with("Content-Type", "text/event-stream").with("Cache-Control", "no-cache");
  request.watch_peer();
  response.stream = [&sessions = desk.parts.sessions, principal = request.principal,
                     id = sandbox.id](BodyWriter& out) {
    return sendMetrics(sessions, principal, id, out);
  };
  co_return response;
}

}  // namespace

std::vector<Route> metricRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/ping",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, ping)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/metrics",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, metrics)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/metrics/watch",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, watch)},
  };
}

}  // namespace cloister::api::compat::opensandbox
