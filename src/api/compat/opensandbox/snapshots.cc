// SPDX-License-Identifier: Apache-2.0
// Snapshots of sandboxes: the same as those of /v1/snapshots. A sandbox begins with one by
// `snapshotId`.
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/rest/requests.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr int64_t kMaxPageSize = 200;

Error named(Error error, const std::string& id) {
  if (error.code == Code::kNotFound) error.message = "there is no snapshot " + id;
  return error;
}

Task<Result<Response>> take(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object body = request.has_body ? CO_TRY(bodyObject(desk, request)) : json::object();
  base::ObjectReader reader(body, "");
  model::SnapshotRequest wanted;
  wanted.name = CO_TRY(reader.text("name")).value_or("");
  CO_TRY(reader.finish());
  json::object checked;
  if (!wanted.name.empty()) checked["name"] = wanted.name;
  wanted = CO_TRY(model::parseSnapshotRequest(checked));
  auto taken = co_await desk.parts.snapshots.take(request.principal, sandbox.id, std::move(wanted));
  const model::Snapshot snapshot = CO_TRY(std::move(taken));
  co_return jsonResponse(202, snapshotObject(snapshot))
      .with("Location", "/opensandbox/v1/snapshots/" + snapshot.id);
}

Task<Result<Response>> show(Desk& desk, Request& request) {
  const std::string& id = request.params[0];
  auto snapshot = desk.parts.snapshots.get(request.principal, id);
  if (!snapshot) co_return std::unexpected(named(std::move(snapshot).error(), id));
  co_return jsonResponse(200, snapshotObject(*snapshot));
}

Task<Result<Response>> list(Desk& desk, Request& request) {
  constexpr uint32_t kAtOnce = 100;
  PageRequest page;
  if (const auto number = CO_TRY(queryInteger(request, "page", 1, INT32_MAX))) {
    page.page = static_cast<uint64_t>(*number);
  }
  if (const auto size = CO_TRY(queryInteger(request, "pageSize", 1, kMaxPageSize))) {
    page.size = static_cast<uint64_t>(*size);
  }
  const auto sandbox = queryText(request, "sandboxId");
  const auto name = queryText(request, "name");
  const std::vector<std::string> states = queryTexts(request, "state");
  std::vector<json::object> shown;
  store::ArtifactQuery query;
  query.limit = kAtOnce;
  for (bool last = false; !last;) {
    const auto some = CO_TRY(desk.parts.snapshots.list(request.principal, query));
    last = some.size() < kAtOnce;
    if (!some.empty()) query.before_id = some.back().id;
    for (const model::Snapshot& each : some) {
      if (sandbox && each.session_id != *sandbox) continue;
      if (name && each.name != *name) continue;
      // A snapshot that is not ready has no record yet.
      if (!states.empty() && std::ranges::find(states, "Ready") == states.end()) continue;
      shown.push_back(snapshotObject(each));
    }
  }
  co_return jsonResponse(200, pageOf(std::move(shown), page));
}

Task<Result<Response>> remove(Desk& desk, Request& request) {
  const std::string& id = request.params[0];
  auto removed = co_await desk.parts.snapshots.remove(request.principal, id);
  if (!removed) co_return std::unexpected(named(std::move(removed).error(), id));
  co_return noContent();
}

}  // namespace

std::vector<Route> snapshotRoutes(const DeskPtr& desk) {
  return {
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/snapshots",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, take),
       .json_body = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/snapshots",
       .access = needs(Permission::kArtifactRead),
       .query = {"sandboxId", "name", "state", "page", "pageSize"},
       .handle = with(desk, list)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/snapshots/{id}",
       .access = needs(Permission::kArtifactRead),
       .query = {},
       .handle = with(desk, show)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/snapshots/{id}",
       .access = needs(Permission::kArtifactDelete),
       .query = {},
       .handle = with(desk, remove)},
  };
}

}  // namespace cloister::api::compat::opensandbox
