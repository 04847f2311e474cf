// SPDX-License-Identifier: Apache-2.0
// /v1/pool: the ready sandboxes of the node, and the service of claims.
#include "api/pool_metrics.h"
#include "api/rest/rest.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using model::PoolStats;

// Cumulative, as in the metrics.
json::object toJsonObject(const model::Durations& durations) {
  json::array buckets;
  uint64_t up_to = 0;
  for (size_t i = 0; i < model::Durations::kBoundsMicros.size(); ++i) {
    up_to += durations.counts[i];
    buckets.push_back({{"le", model::Durations::kBoundsMicros[i]}, {"count", up_to}});
  }
  return {
      {"count", durations.count()}, {"sum", durations.sum_micros}, {"buckets", std::move(buckets)}};
}

json::object toJsonObject(const PoolStats& stats) {
  json::array kinds;
  for (const model::PoolKind& kind : stats.kinds) {
    kinds.push_back({{"language", kind.language},
                     {"limits", kind.default_limits ? "default" : "other"},
                     {"scratch_bytes", kind.scratch_bytes},
                     {"ready", kind.ready},
                     {"wanted", kind.wanted},
                     {"making", kind.making},
                     {"waiting", kind.waiting}});
  }
  json::object claims;
  for (size_t i = 0; i < stats.served.size(); ++i)
    claims[model::kServedNames[i]] = stats.served[i];
  claims["none"] = stats.failed;
  return {{"kinds", std::move(kinds)},
          {"held", PoolStats::kHeldNames[static_cast<size_t>(stats.held)]},
          {"claims", std::move(claims)},
          {"claim_us", toJsonObject(stats.claim)},
          {"refill_us", toJsonObject(stats.refill)},
          {"teardown_backlog", stats.dying},
          {"zygotes", stats.zygotes},
          {"copies", stats.copies},
          {"dead", stats.dead},
          {"drained", stats.drained}};
}

Task<Result<Response>> pool(RestParts& parts, Request&) {
  const auto stats = poolStats(parts);
  if (!stats) {
    co_return fail(Code::kUnavailable,
                   "reading the pool: no node is connected, or it has not told yet; see /readyz");
  }
  co_return jsonResponse(200, toJsonObject(*stats));
}

}  // namespace

std::optional<PoolStats> poolStats(const RestParts& parts) {
  auto stats = parts.service.pool();
  return stats ? std::optional(withKnownLanguages(*std::move(stats), parts.languages)) : stats;
}

std::vector<Route> poolRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/pool",
           .access = needs(Permission::kPoolRead),
           .query = {},
           .handle = [&parts](Request& request) { return pool(parts, request); }}};
}

}  // namespace cloister::api
