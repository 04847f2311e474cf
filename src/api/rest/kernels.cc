// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/kernels: the interpreters for a session's cells.
#include <utility>

#include "api/rest/requests.h"

namespace cloister::api {
namespace {

namespace json = base::json;

Task<Result<Response>> list(RestParts& parts, Request& request) {
  json::array items;
  for (const auto& state : CO_TRY(parts.sessions.kernels(request.principal, request.params[0])))
    items.push_back(toJsonObject(state));
  co_return jsonResponse(200, json::object{{"kernels", std::move(items)}});
}

Task<Result<Response>> restart(RestParts& parts, Request& request) {
  if (request.has_body) {
    const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
    base::ObjectReader reader(body, "");
    CO_TRY(reader.finish());
  }
  auto state = co_await parts.sessions.restartKernel(request.principal, request.params[0],
                                                     request.params[1]);
  co_return jsonResponse(200, toJsonObject(CO_TRY(std::move(state))));
}

}  // namespace

std::vector<Route> kernelRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/kernels",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(list)},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/kernels/{name}:restart",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(restart),
       .json_body = true},
  };
}

}  // namespace cloister::api
