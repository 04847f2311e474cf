// SPDX-License-Identifier: Apache-2.0
// For operators: the pools of ready sandboxes, and diagnostics of one sandbox.
#include <ranges>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/exec_events.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

json::object diagnosticObject(const Request& request, const model::Session& sandbox,
                              std::string_view kind, const std::string& text) {
  return {{"sandboxId", sandbox.id},
          {"kind", kind},
          {"scope", queryText(request, "scope").value_or("all")},
          {"delivery", "inline"},
          {"contentType", "text/plain; charset=utf-8"},
          {"content", text},
          {"contentLength", text.size()},
          {"truncated", false}};
}

// The latest output of the sandbox's programs, newest last.
Task<Result<Response>> diagnosticLogs(Desk& desk, Request& request) {
  constexpr uint32_t kPrograms = 20;
  constexpr size_t kMostOfEach = size_t{8} << 10;
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  store::ListQuery query;
  query.session_id = sandbox.id;
  query.limit = kPrograms;
  std::string text;
  auto programs = CO_TRY(desk.parts.service.list(request.principal, query));
  for (const model::Execution& each : programs | std::views::reverse) {
    const model::Execution whole = CO_TRY(desk.parts.service.get(request.principal, each.id));
    std::string said = whole.out.bytes + whole.err.bytes;
    if (said.size() > kMostOfEach) said.erase(0, said.size() - kMostOfEach);
    text += base::formatTime(whole.created_at) + " " + whole.id + " " +
            std::string(model::statusName(whole.status)) + "\n" + readable(said);
    if (!text.ends_with('\n')) text += "\n";
  }
  co_return jsonResponse(200, diagnosticObject(request, sandbox, "logs", text));
}

Task<Result<Response>> diagnosticEvents(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  std::string text = base::formatTime(sandbox.created_at) + " created\n";
  const int64_t paused_at = desk.parts.sessions.pausedSince(sandbox.id);
  if (paused_at != 0) text += base::formatTime(paused_at) + " paused\n";
  for (const std::string& weak : sandbox.provenance.weakened)
    text += base::formatTime(sandbox.created_at) + " weaker isolation: " + weak + "\n";
  co_return jsonResponse(200, diagnosticObject(request, sandbox, "events", text));
}

// The ready sandboxes of one language, or of none yet.
json::object poolObject(std::string_view name, const model::PoolStats& stats) {
  uint64_t wanted = 0;
  uint64_t ready = 0;
  uint64_t making = 0;
  for (const model::PoolKind& kind : stats.kinds) {
    if (kind.language != name) continue;
    wanted += kind.wanted;
    ready += kind.ready;
    making += kind.making;
  }
  return {{"name", name},
          {"capacitySpec", {{"poolMin", wanted}, {"poolMax", wanted}}},
          {"status", {{"total", ready + making}, {"allocated", 0}, {"available", ready}}}};
}

// Each pool is there at all times: sandboxes stand ready in it once its language is in use.
Task<Result<Response>> pools(Desk& desk, Request&) {
  const auto stats = poolStats(desk.parts);
  if (!stats) {
    co_return fail(Code::kUnavailable,
                   "reading the pools: no node is connected, or it has not told yet");
  }
  json::array items{poolObject(model::PoolStats::kAny, *stats)};
  for (const model::Language& language : desk.parts.languages.all())
    items.push_back(poolObject(language.name, *stats));
  co_return jsonResponse(200, json::object{{"items", std::move(items)}});
}

Task<Result<Response>> noPools(Desk&, Request&) {
  co_return fail(Code::kUnsupported,
                 "pools are the operator's (pool in the configuration); GET /v1/pools lists them");
}

Task<Result<Response>> health(Desk&, Request&) {
  co_return jsonResponse(200, json::object{{"status", "healthy"}});
}

}  // namespace

std::vector<Route> operationRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/health",
       .access = anyone(),
       .query = {},
       .handle = with(desk, health)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/diagnostics/logs",
       .access = needs(Permission::kSessionRead),
       .query = {"scope"},
       .handle = with(desk, diagnosticLogs)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/diagnostics/events",
       .access = needs(Permission::kSessionRead),
       .query = {"scope"},
       .handle = with(desk, diagnosticEvents)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/pools",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, pools)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/pools",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, noPools),
       .json_body = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/pools/{name}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, noPools),
       .json_body = true},
  };
}

}  // namespace cloister::api::compat::opensandbox
