// SPDX-License-Identifier: Apache-2.0
// /v1/snapshots: a tenant's kept workspaces of sessions. POST /v1/sessions restores a snapshot.
#include <utility>

#include "api/rest/requests.h"
#include "base/crypto.h"
#include "base/id.h"

namespace cloister::api {
namespace {

namespace json = base::json;

Task<Result<Response>> take(RestParts& parts, Request& request) {
  const json::object body =
      request.has_body ? CO_TRY(parseObject(request.body, parts.bounds)) : json::object();
  model::SnapshotRequest wanted = CO_TRY(model::parseSnapshotRequest(body));
  auto taken =
      co_await parts.snapshots.take(request.principal, request.params[0], std::move(wanted));
  const model::Snapshot snapshot = CO_TRY(std::move(taken));
  co_return jsonResponse(201, model::toJsonObject(snapshot))
      .with("Location", "/v1/snapshots/" + snapshot.id);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  co_return jsonResponse(
      200, model::toJsonObject(CO_TRY(parts.snapshots.get(request.principal, request.params[0]))));
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  store::ArtifactQuery query;
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor")) {
    query.before_id = base::fromBase64(*cursor).value_or("");
    if (!base::isId(model::kSnapshotPrefix, query.before_id)) {
      co_return fail(Code::kInvalid, "query parameter cursor: not one of this service",
                     "query.cursor");
    }
  }
  Page page = CO_TRY(readPages(
      query, [&](const auto& some) { return parts.snapshots.list(request.principal, some); },
      [](const model::Snapshot& snapshot) { return model::toJsonObject(snapshot); }));
  co_return jsonResponse(200, json::object{{"snapshots", std::move(page.items)},
                                           {"next_cursor", std::move(page.next)}});
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  auto removed = co_await parts.snapshots.remove(request.principal, request.params[0]);
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

}  // namespace

std::vector<Route> snapshotRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/snapshots",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(take),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/snapshots",
       .access = needs(Permission::kArtifactRead),
       .query = {"limit", "cursor"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/snapshots/{id}",
       .access = needs(Permission::kArtifactRead),
       .query = {},
       .handle = with(show)},
      {.method = "DELETE",
       .pattern = "/v1/snapshots/{id}",
       .access = needs(Permission::kArtifactDelete),
       .query = {},
       .handle = with(remove)},
  };
}

}  // namespace cloister::api
