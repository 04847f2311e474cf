// SPDX-License-Identifier: Apache-2.0
// /opensandbox/v1/sandboxes: sandboxes listed, changed and ended. Each is a session.
#include <algorithm>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/rest/requests.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
using model::SessionStatus;

constexpr int64_t kMaxPageSize = 200;
constexpr uint32_t kMostEnded = 500;  // ended sandboxes of a list, the newest

json::object shownSandbox(Desk& desk, const model::Session& session) {
  return sandboxObject(session, desk.parts.sessions.pausedSince(session.id));
}

// An ended sandbox is gone, unless it failed: then the client may learn why.
Task<Result<Response>> show(Desk& desk, Request& request) {
  const model::Session session =
      CO_TRY(desk.parts.sessions.get(request.principal, request.params[0]));
  if (stateOf(session) == "Failed") co_return jsonResponse(200, sandboxObject(session));
  co_return jsonResponse(200, shownSandbox(desk, CO_TRY(liveSandbox(desk, request))));
}

Result<PageRequest> pageRequest(const Request& request) {
  PageRequest page;
  if (const auto number = TRY(queryInteger(request, "page", 1, INT32_MAX))) {
    page.page = static_cast<uint64_t>(*number);
  }
  if (const auto size = TRY(queryInteger(request, "pageSize", 1, kMaxPageSize))) {
    page.size = static_cast<uint64_t>(*size);
  }
  return page;
}

// All sandboxes of a status, newest first; ended ones at most kMostEnded.
Result<std::vector<model::Session>> sessionsOf(Desk& desk, const Request& request,
                                               SessionStatus status) {
  constexpr uint32_t kAtOnce = 100;
  std::vector<model::Session> all;
  store::SessionQuery query;
  query.status = status;
  query.limit = kAtOnce;
  while (true) {
    auto some = TRY(desk.parts.sessions.list(request.principal, query));
    const bool last = some.size() < kAtOnce;
    if (!some.empty()) query.before_seq = some.back().seq;
    std::ranges::move(some, std::back_inserter(all));
    if (last || (status == SessionStatus::kEnded && all.size() >= kMostEnded)) return all;
  }
}

Task<Result<Response>> list(Desk& desk, Request& request) {
  const PageRequest page = CO_TRY(pageRequest(request));
  const auto filter = CO_TRY(parseMetadataFilter(queryText(request, "metadata").value_or("")));
  const std::vector<std::string> states = queryTexts(request, "state");
  const auto wants = [&](std::string_view state) {
    return std::ranges::find(states, state) != states.end();
  };
  std::vector<SessionStatus> statuses = {SessionStatus::kRunning, SessionStatus::kPaused,
                                         SessionStatus::kCreating, SessionStatus::kBlocked};
  if (wants("Terminated") || wants("Failed")) statuses.push_back(SessionStatus::kEnded);
  std::vector<model::Session> found;
  for (const SessionStatus status : statuses)
    std::ranges::move(CO_TRY(sessionsOf(desk, request, status)), std::back_inserter(found));
  std::ranges::sort(found, std::ranges::greater(), &model::Session::seq);
  std::vector<json::object> shown;
  for (const model::Session& session : found) {
    const int64_t paused_at = desk.parts.sessions.pausedSince(session.id);
    if (!states.empty() && !wants(stateOf(session, paused_at))) continue;
    if (matches(session, filter)) shown.push_back(sandboxObject(session, paused_at));
  }
  co_return jsonResponse(200, pageOf(std::move(shown), page));
}

Task<Result<Response>> end(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  auto ended = co_await desk.parts.sessions.end(request.principal, sandbox.id);
  if (!ended) co_return std::unexpected(std::move(ended).error());
  co_return noContent();
}

// The bounds of a session's metadata.
Result<> checkMetadata(const Desk& desk, const json::object& metadata) {
  TRY(model::parseSessionRequest(json::object{{"metadata", metadata}}, desk.parts.bounds,
                                 desk.parts.session_bounds));
  return {};
}

Task<Result<Response>> patchMetadata(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const json::object patch = CO_TRY(bodyObject(desk, request));
  json::object metadata = CO_TRY(patchedMetadata(sandbox, patch));
  CO_TRY(checkMetadata(desk, metadata));
  auto amended = co_await desk.parts.sessions.amend(request.principal, sandbox.id,
                                                    {.metadata = std::move(metadata)});
  co_return jsonResponse(200, shownSandbox(desk, CO_TRY(std::move(amended))));
}

Task<Result<Response>> renew(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const json::object body = CO_TRY(bodyObject(desk, request));
  base::ObjectReader reader(body, "");
  const auto text = CO_TRY(reader.text("expiresAt"));
  CO_TRY(reader.finish());
  const auto at = text ? base::parseTime(*text) : std::nullopt;
  const int64_t now = base::wallMicros();
  if (!at || *at <= now) {
    co_return fail(Code::kInvalid, "expiresAt: must be a time to come, as in RFC 3339",
                   "expiresAt");
  }
  const double seconds = static_cast<double>(*at - now) / kMicrosPerSecond;
  auto renewal =
      model::parseRenewal(json::object{{"ttl_seconds", seconds}, {"idle_ttl_seconds", seconds}},
                          desk.parts.session_bounds);
  if (!renewal) {
    renewal.error().field = "expiresAt";
    co_return std::unexpected(std::move(renewal).error().within("expiresAt"));
  }
  const model::Session renewed =
      CO_TRY(co_await desk.parts.sessions.renew(request.principal, sandbox.id, *renewal));
  co_return jsonResponse(200, json::object{{"expiresAt", base::formatTime(renewed.expires_at)}});
}

// A paused sandbox keeps its memory, and its programs stand still.
Task<Result<Response>> pause(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  auto paused = co_await desk.parts.sessions.pause(request.principal, sandbox.id);
  if (!paused) co_return std::unexpected(std::move(paused).error());
  co_return empty(202);
}

Task<Result<Response>> resume(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  auto resumed = co_await desk.parts.sessions.resume(request.principal, sandbox.id);
  if (!resumed) co_return std::unexpected(std::move(resumed).error());
  co_return empty(202);
}

// Telemetry for the makers of the clients.
Task<Result<Response>> ignoreMetrics(Desk&, Request&) {
  co_return noContent();
}

}  // namespace

std::vector<Route> lifecycleRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes",
       .access = needs(Permission::kSessionRead),
       .query = {"state", "metadata", "page", "pageSize"},
       .handle = with(desk, list)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, show)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}",
       .access = needs(Permission::kSessionEnd),
       .query = {},
       .handle = with(desk, end)},
      {.method = "PATCH",
       .pattern = "/opensandbox/v1/sandboxes/{id}/metadata",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, patchMetadata),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/renew-expiration",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, renew),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/pause",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, pause),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/resume",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, resume),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/metrics/events",
       .access = anyone(),
       .query = {},
       .handle = with(desk, ignoreMetrics),
       .json_body = true},
  };
}

}  // namespace cloister::api::compat::opensandbox
