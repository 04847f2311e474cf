// SPDX-License-Identifier: Apache-2.0
// /v1/deps: dependency layers, and the bill of materials of an execution that had one.
#include <utility>

#include "api/rest/requests.h"
#include "base/clock.h"
#include "model/dependency.h"
#include "orchestrator/deps/layer_service.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMicrosPerDay = int64_t{86'400} * 1'000'000;
constexpr int64_t kMostDays = 36'500;

Result<orchestrator::LayerService*> layersOf(RestParts& parts) {
  if (parts.layers != nullptr) return parts.layers;
  return fail(Code::kUnsupported,
              "deps: this service has no index of packages; have packages.pypi.index or "
              "packages.npm.registry configured");
}

json::object layerObject(const model::DependencyLayer& layer) {
  json::object object = model::toJsonObject(layer);
  object.erase("users");
  object.erase("maker");
  object["shared"] = layer.tenant.empty();
  if (layer.tenant.empty()) object["tenant"] = nullptr;
  object["made_at"] = base::formatTime(layer.made_at);
  object["used_at"] = base::formatTime(layer.used_at);
  object["sbom_sha256"] = model::billDigest(layer);
  return object;
}

json::object layersObject(const std::vector<model::DependencyLayer>& layers) {
  json::array items;
  for (const model::DependencyLayer& layer : layers)
    items.emplace_back(layerObject(layer));
  return {{"layers", std::move(items)}};
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto* layers = CO_TRY(layersOf(parts));
  co_return jsonResponse(200, layersObject(layers->list(request.principal)));
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const auto* layers = CO_TRY(layersOf(parts));
  co_return jsonResponse(200,
                         layerObject(CO_TRY(layers->find(request.principal, request.params[0]))));
}

Task<Result<Response>> prune(RestParts& parts, Request& request) {
  auto* layers = CO_TRY(layersOf(parts));
  const json::object body =
      request.has_body ? CO_TRY(parseObject(request.body, parts.bounds)) : json::object();
  base::ObjectReader reader(body, "");
  const int64_t days = CO_TRY(reader.integer("unused_days", 0, kMostDays)).value_or(0);
  CO_TRY(reader.finish());
  const int64_t until = days == 0 ? INT64_MAX : base::wallMicros() - days * kMicrosPerDay;
  auto pruned = co_await layers->prune(request.principal, until);
  if (!pruned) co_return std::unexpected(std::move(pruned).error());
  co_return jsonResponse(200, layersObject(*pruned));
}

Task<Result<Response>> bill(RestParts& parts, Request& request) {
  const model::Execution execution =
      CO_TRY(parts.service.get(request.principal, request.params[0]));
  if (execution.provenance.layers.empty()) {
    co_return fail(Code::kNotFound,
                   "the execution had no dependencies (deps), so it has no bill of materials");
  }
  const std::string& digest = execution.provenance.layers.front().sbom_sha256;
  auto text = CO_TRY(parts.store.bill(digest));
  if (!text) co_return fail(Code::kInternal, "the bill of materials is not in the ledger");
  Response response = jsonResponse(200, {});
  response.body = *std::move(text);
  co_return std::move(response).with("Content-Type", "application/vnd.cyclonedx+json");
}

}  // namespace

std::vector<Route> dependencyRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "GET",
       .pattern = "/v1/deps",
       .access = needs(Permission::kArtifactRead),
       .query = {},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/deps/{id}",
       .access = needs(Permission::kArtifactRead),
       .query = {},
       .handle = with(show)},
      {.method = "POST",
       .pattern = "/v1/deps:prune",
       .access = needs(Permission::kQuotaManage),
       .query = {},
       .handle = with(prune),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/executions/{id}/sbom",
       .access = needs(Permission::kExecutionRead),
       .query = {},
       .handle = with(bill)},
  };
}

}  // namespace cloister::api
