// SPDX-License-Identifier: Apache-2.0
// Resources for operators and tools: health, readiness, metrics, the node, the languages, the API
// itself.
#include <sys/statvfs.h>

#include <algorithm>
#include <map>

#include "api/http/fixed_body.h"
#include "api/http/problem.h"
#include "api/rest/rest.h"
#include "model/image.h"
#include "model/offer_json.h"

namespace cloister::api {
namespace {

namespace json = base::json;

json::array strings(const std::vector<std::string>& values) {
  return json::array(values.begin(), values.end());
}

Response text(std::string type, std::string body) {
  Response response;
  response.with("Content-Type", std::move(type));
  response.body = std::move(body);
  return response;
}

Task<Result<Response>> healthz(RestParts& parts, Request&) {
  co_return jsonResponse(200, json::object{{"status", "ok"}, {"version", parts.version}});
}

Task<Result<Response>> readyz(RestParts& parts, Request& request) {
  const auto ready = parts.service.ready();
  if (ready) {
    co_return jsonResponse(200, json::object{{"ready", true}, {"reasons", json::array()}});
  }
  Response response = problem(Error{Code::kUnavailable, ready.error().message, ""}, request);
  json::object body = CO_TRY(base::parseJson(response.body)).as_object();
  body["ready"] = false;
  body["reasons"] = json::array{ready.error().message};
  response.body = base::toJson(body);
  co_return response;
}

// The result of reading the disk, for which the io thread does not wait.
struct Looked {
  Result<std::map<model::EscalationStatus, uint64_t>> escalations;
  struct statvfs disk{};
};

Task<Result<Response>> metrics(RestParts& parts, Request&) {
  const auto looked = co_await async::inBackground<Looked>(parts.background, [&parts] {
    Looked found{.escalations = parts.store.escalations().count()};
    if (::statvfs(parts.state.c_str(), &found.disk) != 0) found.disk = {};
    return found;
  });
  if (looked.escalations) parts.metrics.escalations(*looked.escalations);
  parts.metrics.stateDisk(uint64_t{looked.disk.f_blocks} * looked.disk.f_frsize,
                          uint64_t{looked.disk.f_bavail} * looked.disk.f_frsize);
  parts.metrics.memory(parts.service.reservedByAll().memory_bytes,
                       parts.service.measuredOfAll().memory_bytes);
  if (parts.certificate_expires) parts.metrics.certificateExpires(parts.certificate_expires());
  parts.metrics.nodeConnected(parts.service.node().runtime != nullptr);
  parts.metrics.pool(poolStats(parts));
  parts.metrics.image(parts.service.image());
  co_return text("text/plain; version=0.0.4; charset=utf-8", parts.metrics.text());
}

Task<Result<Response>> openapi(RestParts& parts, Request&) {
  Response response = text("application/yaml", "");
  sendFixed(response, parts.openapi);
  co_return response;
}

Task<Result<Response>> node(RestParts& parts, Request&) {
  const orchestrator::NodeState& state = parts.service.node();
  model::NodeOffer offer = state.offer;
  if (const auto image = parts.service.image()) offer.findings.push_back(model::findingOf(*image));
  if (!parts.audit_losses.empty()) {
    offer.findings.push_back(
        {.area = "audit",
         .name = "log",
         .state = model::Finding::State::kMissing,
         .detail = parts.audit_losses,
         .remedy = "cloister audit verify; docs/AUDIT.md, \"When the ledger is found changed\""});
  }
  json::object answer{{"connected", state.runtime != nullptr}};
  for (auto& [name, value] : model::offerJson(offer))
    answer[name] = std::move(value);
  co_return jsonResponse(200, answer);
}

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

// The node's own first.
Task<Result<Response>> images(RestParts& parts, Request&) {
  const model::NodeOffer& offer = parts.service.node().offer;
  json::array items;
  items.push_back({{"name", model::kHostImage},
                   {"digest", textOrNull(offer.image_digest)},
                   {"source", "host"},
                   {"created", nullptr},
                   {"size_bytes", nullptr},
                   {"files", nullptr},
                   {"machines", false},
                   {"languages", strings(offer.languages)},
                   {"verified", nullptr}});
  for (const model::OfferedImage& image : offer.images) {
    items.push_back({{"name", image.name},
                     {"digest", image.digest},
                     {"source", image.source},
                     {"created", textOrNull(image.created)},
                     {"size_bytes", image.size_bytes},
                     {"files", image.files},
                     {"machines", image.machines},
                     {"languages", strings(image.languages)},
                     {"verified", model::toJsonValue(image.verified)}});
  }
  co_return jsonResponse(200, json::object{{"images", std::move(items)}});
}

Task<Result<Response>> languages(RestParts& parts, Request&) {
  const std::vector<std::string>& usable = parts.service.node().offer.languages;
  json::array items;
  for (const model::Language& language : parts.languages.all()) {
    const bool present = std::ranges::find(usable, language.name) != usable.end();
    items.push_back({{"name", language.name},
                     {"title", language.title},
                     {"aliases", strings(language.aliases)},
                     {"extensions", strings(language.extensions)},
                     {"compiled", !language.compile.empty()},
                     {"usable", present},
                     {"install", language.install}});
  }
  co_return jsonResponse(200, json::object{{"languages", std::move(items)}});
}

}  // namespace

std::vector<Route> operationRoutes(RestParts& parts) {
  const auto get = [&parts](std::string_view pattern, Access access, auto handler) {
    return Route{.method = "GET",
                 .pattern = pattern,
                 .access = access,
                 .query = {},
                 .handle = [&parts, handler](Request& request) { return handler(parts, request); }};
  };
  const auto local = parts.metrics_open ? Access::Or::kLocal : Access::Or::kNobody;
  return {get("/healthz", anyone(), healthz),
          get("/readyz", anyone(), readyz),
          get("/openapi.yaml", anyone(), openapi),
          get("/metrics", needs(Permission::kMetricsRead, local), metrics),
          get("/v1/node", needs(Permission::kServiceRead), node),
          get("/v1/images", needs(Permission::kServiceRead), images),
          get("/v1/languages", needs(Permission::kServiceRead), languages)};
}

}  // namespace cloister::api
