// SPDX-License-Identifier: Apache-2.0
// /v1/agents, further: attempts, actions and use of agents, and whether all their sandboxes can be
// held.
#include <algorithm>
#include <utility>

#include "api/rest/agent_requests.h"
#include "api/rest/agent_routes.h"
#include "api/rest/requests.h"
#include "policy/agent/validate.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMicros = 1'000'000;
constexpr int64_t kMaxPeriod = int64_t{3660} * 24 * 3600;  // seconds
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kWarnPercent = 90;

// An agent of another tenant and an unknown agent get the same answer.
Result<> mustSee(RestParts& parts, const Request& request, const store::AgentName& name) {
  TRY(sandboxOf(parts, request, name));
  return {};
}

template <class Query>
Result<> pageOf(const Request& request, const ListCursor& cursors, Query& query) {
  const auto limit = TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor"))
    query.before_seq = TRY(cursors.read(*cursor));
  return {};
}

Task<Result<Response>> violations(RestParts& parts, Request& request) {
  store::ViolationQuery query;
  query.of = CO_TRY(agentOf(request));
  const ListCursor cursors = cursorOf(parts, request.principal, "violations");
  CO_TRY(pageOf(request, cursors, query));
  const auto scope = store::Scope::of(request.principal);
  const auto found = CO_TRY(parts.store.agents().violations(scope, query));
  // Violations outlive the sandbox; without violations and sandbox the agent does not exist.
  if (found.empty()) CO_TRY(mustSee(parts, request, query.of));
  json::array items;
  for (const model::Violation& violation : found)
    items.push_back(violationObject(violation));
  json::value cursor = nullptr;
  if (found.size() == query.limit) cursor = CO_TRY(cursors.before(found.back().seq));
  co_return jsonResponse(
      200, json::object{{"violations", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

// An administrator of another tenant may have changed the agent's sandbox. Readers of this tenant
// must not see the other tenant's numbers.
json::object agentEntry(const model::AuditEntry& entry, const store::Scope& scope) {
  const auto& tenant = scope.tenant();
  const bool own = !tenant || *tenant == entry.event.principal.tenant;
  const std::string& credential = entry.event.principal.key_id;
  json::object object = {{"seq", own ? json::value(entry.seq) : json::value(nullptr)},
                         {"at", base::formatTime(entry.at)},
                         {"action", entry.event.action},
                         {"subject", entry.event.subject},
                         {"by", model::toJsonObject(entry.event.principal)},
                         {"by_credential", own && !credential.empty() ? json::value(credential)
                                                                      : json::value(nullptr)},
                         {"details", model::shownDetails(entry)}};
  if (!tenant) object["position"] = entry.position;
  return object;
}

Task<Result<Response>> auditOf(RestParts& parts, Request& request) {
  store::AgentAuditQuery query;
  query.of = CO_TRY(agentOf(request));
  const ListCursor cursors = cursorOf(parts, request.principal, "agent audit");
  CO_TRY(pageOf(request, cursors, query));
  if (const auto seconds = CO_TRY(queryInteger(request, "period_seconds", 1, kMaxPeriod)))
    query.since = base::wallMicros() - *seconds * kMicros;
  const auto scope = store::Scope::of(request.principal);
  const auto found = CO_TRY(parts.store.agents().audit(scope, query));
  if (found.empty()) CO_TRY(mustSee(parts, request, query.of));
  json::array items;
  for (const model::AuditEntry& entry : found)
    items.push_back(agentEntry(entry, scope));
  json::value cursor = nullptr;
  if (found.size() == query.limit) cursor = CO_TRY(cursors.before(found.back().position));
  co_return jsonResponse(
      200, json::object{{"entries", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

json::object gauge(uint64_t used, std::optional<uint64_t> most,
                   std::optional<uint64_t> reserved = std::nullopt) {
  json::object out = {{"used", used}};
  out["limit"] = most ? json::value(*most) : json::value(nullptr);
  const uint64_t percent = most && *most > 0 ? used * 100 / *most : 0;
  out["percent"] = most ? json::value(percent) : json::value(nullptr);
  out["warning"] = most && percent >= kWarnPercent;
  if (reserved) out["reserved"] = *reserved;
  return out;
}

// The start of the longest running execution; 0 if none runs.
Result<int64_t> oldestStart(RestParts& parts, const Request& request,
                            const store::AgentName& name) {
  store::ListQuery query;
  query.status = model::Status::kRunning;
  query.agent = name.agent;
  query.limit = kMaxList;
  int64_t oldest = 0;
  for (const model::Execution& run : TRY(parts.service.list(request.principal, query))) {
    if (run.principal.tenant != name.tenant) continue;
    oldest = oldest == 0 ? run.started_at : std::min(oldest, run.started_at);
  }
  return oldest;
}

Task<Result<Response>> usage(RestParts& parts, Request& request) {
  const policy::Levels& levels = *CO_TRY(levelsOf(parts));
  const store::AgentName name = CO_TRY(agentOf(request));
  const model::AgentSandbox sandbox = CO_TRY(sandboxOf(parts, request, name));
  const policy::AgentRules rules = CO_TRY(policy::makeAgentRules(levels, sandbox));
  const policy::Resources reserved = parts.service.reservedBy(asAgent(name));
  const policy::Resources used = parts.service.measuredOf(asAgent(name));
  const int64_t oldest = CO_TRY(oldestStart(parts, request, name));
  const int64_t now = base::wallMicros();
  const auto seconds =
      static_cast<uint64_t>(oldest == 0 ? 0 : std::max<int64_t>(0, (now - oldest) / kMicros));
  co_return jsonResponse(
      200, json::object{{"agent", name.agent},
                        {"level", sandbox.level},
                        {"at", base::formatTime(now)},
                        {"running", gauge(used.running, rules.limits.concurrent)},
                        {"memory_mb", gauge(used.memory_bytes / kMiB, rules.limits.memory_mb,
                                            reserved.memory_bytes / kMiB)},
                        {"cpu_percent", gauge(used.cpu_millis / 10, rules.limits.cpu_percent,
                                              reserved.cpu_millis / 10)},
                        {"time_seconds", gauge(seconds, rules.limits.time_seconds)}});
}

json::object statsObject(const model::AgentSandbox& sandbox, const store::AgentStats& stats,
                         const policy::Resources& now) {
  json::object executions;
  uint64_t total = 0;
  for (const auto& [status, count] : stats.executions) {
    executions[status] = count;
    total += count;
  }
  return {{"agent", sandbox.agent},
          {"tenant", sandbox.tenant},
          {"level", sandbox.level},
          {"executions", std::move(executions)},
          {"executions_total", total},
          {"sessions", stats.sessions},
          {"running", now.running},
          {"memory_mb", now.memory_bytes / kMiB},
          {"cpu_percent", now.cpu_millis / 10},
          {"violations", stats.violations},
          {"last_violation_at", stats.last_violation == 0
                                    ? json::value(nullptr)
                                    : json::value(base::formatTime(stats.last_violation))}};
}

Task<Result<Response>> stats(RestParts& parts, Request& request) {
  const store::AgentName name = CO_TRY(agentOf(request));
  const auto scope = store::Scope::of(request.principal);
  const auto sandbox = CO_TRY(sandboxOf(parts, request, name));
  co_return jsonResponse(200, statsObject(sandbox, CO_TRY(parts.store.agents().stats(scope, name)),
                                          parts.service.measuredOf(asAgent(name))));
}

// Reads every sandbox within the scope, perhaps thousands: not on the io thread.
template <class Fn>
Result<uint64_t> forEachAgent(store::Store& store, const store::Scope& scope, Fn&& visit) {
  store::AgentQuery query;
  query.limit = kMaxList;
  uint64_t count = 0;
  for (;;) {
    const auto page = TRY(store.agents().sandboxes(scope, query));
    for (const model::AgentSandbox& sandbox : page) {
      ++count;
      TRY(visit(sandbox));
    }
    if (page.size() < query.limit) return count;
    query.after = {page.back().tenant, page.back().agent};
  }
}

Result<json::object> healthOf(store::Store& store, const store::Scope& scope,
                              const policy::Levels& levels) {
  json::array broken;
  constexpr size_t kMostShown = 100;
  const uint64_t agents = TRY(forEachAgent(store, scope, [&](const auto& sandbox) -> Result<> {
    const auto rules = policy::makeAgentRules(levels, sandbox);
    if (!rules && broken.size() < kMostShown) {
      broken.push_back(json::object{{"agent", sandbox.agent},
                                    {"tenant", sandbox.tenant},
                                    {"problem", rules.error().message}});
    }
    return {};
  }));
  json::array names;
  for (const auto& [name, level] : levels.levels)
    names.push_back(json::string(name));
  const bool whole = broken.empty();
  return json::object{{"agents", agents},
                      {"levels", std::move(names)},
                      {"broken", std::move(broken)},
                      {"sandboxes_ok", whole}};
}

Task<Result<Response>> health(RestParts& parts, Request& request) {
  const policy::Levels* levels = CO_TRY(levelsOf(parts));
  const auto scope = store::Scope::of(request.principal);
  auto checked = co_await async::inBackground<Result<json::object>>(
      parts.background,
      [&store = parts.store, scope, levels] { return healthOf(store, scope, *levels); });
  json::object answer = CO_TRY(std::move(checked));
  const auto ledger = parts.store.health();
  const bool node = parts.service.node().runtime != nullptr;
  answer["ledger_ok"] = ledger.has_value();
  answer["node_ok"] = node;
  answer["ok"] = ledger.has_value() && node && answer["sandboxes_ok"].get_bool();
  co_return jsonResponse(200, answer);
}

}  // namespace

std::vector<Route> agentActivityRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = "/v1/agents/{agent}/sandbox/violations",
           .access = needs(Permission::kAgentRead),
           .query = {"tenant", "limit", "cursor"},
           .handle = with(violations)},
          {.method = "GET",
           .pattern = "/v1/agents/{agent}/sandbox/audit",
           .access = needs(Permission::kAuditRead),
           .query = {"tenant", "period_seconds", "limit", "cursor"},
           .handle = with(auditOf)},
          {.method = "GET",
           .pattern = "/v1/agents/{agent}/sandbox/usage",
           .access = needs(Permission::kAgentRead),
           .query = {"tenant"},
           .handle = with(usage)},
          {.method = "GET",
           .pattern = "/v1/agents/{agent}/sandbox/stats",
           .access = needs(Permission::kAgentRead),
           .query = {"tenant"},
           .handle = with(stats)},
          {.method = "GET",
           .pattern = "/v1/agents:health",
           .access = needs(Permission::kAgentRead),
           .query = {},
           .handle = with(health)}};
}

}  // namespace cloister::api
