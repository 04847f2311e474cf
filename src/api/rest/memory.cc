// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/memory: values kept by a session. A body is the value itself, kept and returned
// byte for byte, so that a number loses no digit.
#include <utility>

#include "api/rest/requests.h"

namespace cloister::api {
namespace {

namespace json = base::json;

Task<Result<Response>> list(RestParts& parts, Request& request) {
  store::MemoryQuery query{.session = request.params[0]};
  if (const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList))) {
    query.limit = static_cast<uint32_t>(*limit);
  }
  if (const auto cursor = queryText(request, "cursor")) {
    query.after_key = base::fromBase64(*cursor).value_or("");
    if (!model::checkMemoryKey(query.after_key, "")) {
      co_return fail(Code::kInvalid, "query parameter cursor: not one of this service",
                     "query.cursor");
    }
  }
  Page page = CO_TRY(readPages(
      query, [&](const auto& some) { return parts.memory().list(request.principal, some); },
      [](const model::MemoryItem& item) { return model::toJsonObject(item); }));
  co_return jsonResponse(
      200, json::object{{"memory", std::move(page.items)}, {"next_cursor", std::move(page.next)}});
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  model::MemoryValue value =
      CO_TRY(parts.memory().get(request.principal, request.params[0], request.params[1]));
  Response response;
  response.body = std::move(value.json);
  co_return response.with("Content-Type", "application/json");
}

Task<Result<Response>> put(RestParts& parts, Request& request) {
  std::string value = std::exchange(request.body, {});
  auto kept = co_await parts.memory().set(request.principal, request.params[0], request.params[1],
                                          std::move(value));
  request.body_read();
  co_return jsonResponse(200, model::toJsonObject(CO_TRY(std::move(kept))));
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  auto removed =
      co_await parts.memory().remove(request.principal, request.params[0], request.params[1]);
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

}  // namespace

std::vector<Route> memoryRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/memory",
       .access = needs(Permission::kFileRead),
       .query = {"limit", "cursor"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/memory/{key}",
       .access = needs(Permission::kFileRead),
       .query = {},
       .handle = with(show)},
      {.method = "PUT",
       .pattern = "/v1/sessions/{id}/memory/{key}",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(put),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/v1/sessions/{id}/memory/{key}",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(remove)},
  };
}

}  // namespace cloister::api
