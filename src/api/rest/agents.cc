// SPDX-License-Identifier: Apache-2.0
// /v1/agents: creation, change and display of the sandboxes of agents. agent_activity.cc has their
// attempts and use.
#include "store/rows/agents.h"

#include <algorithm>
#include <utility>

#include "api/rest/agent_requests.h"
#include "api/rest/agent_routes.h"
#include "api/rest/requests.h"
#include "orchestrator/core/ledger.h"
#include "policy/agent/validate.h"

namespace cloister::api {

namespace json = base::json;

// Whose sandbox a request is about: an administrator may name another tenant. For everybody else
// there is nothing in any but their own.
Result<store::AgentName> agentOf(const Request& request) {
  TRY(model::checkAgentName(request.params[0], "url.agent"));
  store::AgentName name{.tenant = request.principal.tenant, .agent = request.params[0]};
  if (const auto tenant = queryText(request, "tenant")) {
    TRY(model::checkAgentName(*tenant, "query.tenant"));
    name.tenant = *tenant;
  }
  return name;
}

model::Principal asAgent(const store::AgentName& name) {
  return {.tenant = name.tenant,
          .app = {},
          .agent = name.agent,
          .user = {},
          .roles = model::Role::kAgent,
          .key_id = {}};
}

Result<model::AgentSandbox> sandboxOf(RestParts& parts, const Request& request,
                                      const store::AgentName& name) {
  auto found = parts.store.agents().sandbox(store::Scope::of(request.principal), name);
  if (found || found.error().code != Code::kNotFound || parts.agents == nullptr) return found;
  const std::string& level = parts.agents->defaultLevel();
  if (level.empty()) return found;
  return fail(Code::kNotFound, "agent " + name.agent + " has no sandbox of its own; the level " +
                                   level +
                                   " holds it (agents.default_level); `cloister agent create` "
                                   "makes a sandbox");
}

Result<const policy::Levels*> levelsOf(const RestParts& parts) {
  if (parts.agents != nullptr) return &parts.agents->levels();
  return fail(Code::kUnsupported, "agents: no levels were given");
}

namespace {

constexpr size_t kMostOperations = 1000;
constexpr size_t kInPlace = 16;  // the most operations to check on the io thread
constexpr int kTries = 4;

std::string nameOf(const model::Principal& who) {
  return !who.user.empty() ? who.user : !who.app.empty() ? who.app : who.key_id;
}

model::AuditEvent eventOf(std::string action, const Request& request, const store::AgentName& name,
                          json::object details) {
  return {.action = std::move(action),
          .subject = store::agentSubject(name),
          .principal = request.principal,
          .details = std::move(details)};
}

Task<Result<model::AgentSandbox>> put(RestParts& parts, Request& request,
                                      model::AgentSandbox sandbox, uint64_t expected,
                                      model::AuditEvent event) {
  co_return co_await orchestrator::Ledger(parts.store)
      .write(store::putAgent, store::Scope::of(request.principal), sandbox, expected,
             parts.agents_per_tenant, event);
}

// With the rules as they are used: the agent's escalation policy goes before its level.
json::object shownSandbox(const RestParts& parts, const model::AgentSandbox& sandbox) {
  return agentObject(sandbox, parts.agents->standingRulesWith(sandbox));
}

// Rules beyond a sandbox's abilities would refuse all of the agent's requests.
Result<> mayBeHeld(const policy::Levels& levels, const model::AgentSandbox& sandbox) {
  const policy::AgentRules rules = TRY(policy::makeAgentRules(levels, sandbox));
  TRY(policy::wallsOf(rules, base::wallMicros()));
  return {};
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const policy::Levels& levels = *CO_TRY(levelsOf(parts));
  const store::AgentName name = CO_TRY(agentOf(request));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  model::AgentSandbox sandbox;
  sandbox.tenant = name.tenant;
  sandbox.agent = name.agent;
  sandbox.created_by = nameOf(request.principal);
  sandbox.created_at = sandbox.last_modified = sandbox.level_since = base::wallMicros();
  CO_TRY(readAgentSandbox(body, sandbox));
  CO_TRY(mayBeHeld(levels, sandbox));
  auto stored = co_await put(parts, request, sandbox, 0,
                             eventOf("agent.created", request, name, {{"sandbox", body}}));
  if (!stored) co_return std::unexpected(stored.error());
  co_return jsonResponse(201, shownSandbox(parts, *stored))
      .with("Location", "/v1/agents/" + percentEncode(name.agent) + "/sandbox");
}

// A concurrent change is not overwritten.
Task<Result<Response>> update(RestParts& parts, Request& request) {
  const policy::Levels& levels = *CO_TRY(levelsOf(parts));
  const store::AgentName name = CO_TRY(agentOf(request));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  for (int tries = 1;; ++tries) {
    model::AgentSandbox sandbox = CO_TRY(sandboxOf(parts, request, name));
    const uint64_t version = sandbox.version;
    const std::string before = sandbox.level;
    CO_TRY(readAgentUpdate(body, sandbox));
    CO_TRY(mayBeHeld(levels, sandbox));
    sandbox.last_modified = std::max(base::wallMicros(), sandbox.last_modified);
    auto stored = co_await put(
        parts, request, sandbox, version,
        eventOf("agent.updated", request, name,
                {{"change", body}, {"level_before", before}, {"version", version + 1}}));
    if (stored) co_return jsonResponse(200, shownSandbox(parts, *stored));
    if (stored.error().code != Code::kConflict || tries == kTries) {
      co_return std::unexpected(stored.error());
    }
  }
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  CO_TRY(levelsOf(parts));
  const store::AgentName name = CO_TRY(agentOf(request));
  model::AgentSandbox sandbox = CO_TRY(sandboxOf(parts, request, name));
  const auto grants = CO_TRY(parts.agents->grantsOf(name));
  sandbox.temporary_permissions.insert(sandbox.temporary_permissions.end(), grants.begin(),
                                       grants.end());
  co_return jsonResponse(200, shownSandbox(parts, sandbox));
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  const store::AgentName name = CO_TRY(agentOf(request));
  auto removed = co_await orchestrator::Ledger(parts.store)
                     .write(store::removeAgent, store::Scope::of(request.principal), name,
                            eventOf("agent.deleted", request, name, {}));
  if (!removed) co_return std::unexpected(removed.error());
  co_return noContent();
}

// The next page begins behind the last item's tenant and name.
json::value cursorBehind(const model::AgentSandbox& last) {
  return json::string(base::toBase64(json::serialize(json::array{last.tenant, last.agent})));
}

Result<store::AgentName> parseAgentCursor(const std::string& cursor) {
  const auto value = base::parseJson(base::fromBase64(cursor).value_or(""));
  if (value && value->is_array() && value->get_array().size() == 2 &&
      value->get_array()[0].is_string() && value->get_array()[1].is_string()) {
    return store::AgentName{std::string(value->get_array()[0].get_string()),
                            std::string(value->get_array()[1].get_string())};
  }
  return fail(Code::kInvalid, "query parameter cursor: not one of this service", "query.cursor");
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  CO_TRY(levelsOf(parts));
  store::AgentQuery query;
  query.tenant = queryText(request, "tenant").value_or("");
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor"))
    query.after = CO_TRY(parseAgentCursor(*cursor));
  const auto found =
      CO_TRY(parts.store.agents().sandboxes(store::Scope::of(request.principal), query));
  json::array items;
  for (const model::AgentSandbox& sandbox : found)
    items.push_back(shownSandbox(parts, sandbox));
  json::value cursor = found.size() == query.limit ? cursorBehind(found.back()) : nullptr;
  co_return jsonResponse(
      200, json::object{{"agents", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

// --- validation

Result<std::vector<policy::Operation>> readPlan(const json::object& body) {
  base::ObjectReader reader(body, "");
  const json::object* one = TRY(reader.object("operation"));
  const json::array* many = TRY(reader.array("operations"));
  TRY(reader.finish());
  if ((one == nullptr) == (many == nullptr)) {
    return fail(Code::kInvalid, "operation: give either operation or operations (a list)",
                "operation");
  }
  std::vector<policy::Operation> plan;
  if (one != nullptr) {
    plan.push_back(TRY(policy::parseOperation(*one, "operation")));
    return plan;
  }
  if (many->empty() || many->size() > kMostOperations) {
    return fail(Code::kInvalid, "operations: must be a list of 1 to 1000 operations", "operations");
  }
  for (const json::value& item : *many) {
    const std::string path = "operations[" + std::to_string(plan.size()) + "]";
    if (!item.is_object()) return fail(Code::kInvalid, path + ": must be an object", path);
    plan.push_back(TRY(policy::parseOperation(item.get_object(), path)));
  }
  return plan;
}

json::object totalObject(const policy::Validation& v) {
  const json::object all = policy::toJsonObject(v);
  const auto* exceeded = all.if_contains("exceeded_limits");
  json::object out = {{"outcome", all.at("outcome")}};
  out["exceeded_limits"] = exceeded == nullptr ? json::value(json::array()) : *exceeded;
  out["suggestion"] = v.suggestion.empty() ? json::value(nullptr) : json::value(v.suggestion);
  return out;
}

json::object judgePlan(const policy::AgentRules& rules, const std::vector<policy::Operation>& plan,
                       const policy::Resources& used) {
  const int64_t now = base::wallMicros();
  json::array results;
  bool approved = true;
  for (const policy::Operation& operation : plan) {
    const policy::Validation v = policy::validateOperation(rules, operation, used, now);
    approved = approved && v.approved();
    json::object result = policy::toJsonObject(v);
    result["index"] = results.size();
    result["operation"] = policy::nameOf(operation);
    result["target"] = model::shownText(policy::targetOf(operation));
    results.push_back(std::move(result));
  }
  const policy::Validation all = policy::validateResources(rules, policy::sumOf(plan), used);
  return {{"agent", rules.agent},
          {"level", rules.level.name},
          {"approved", approved && all.approved()},
          {"results", std::move(results)},
          {"total", totalObject(all)}};
}

Task<Result<Response>> validate(RestParts& parts, Request& request) {
  CO_TRY(levelsOf(parts));
  const store::AgentName name = CO_TRY(agentOf(request));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  auto plan = CO_TRY(readPlan(body));
  const model::Principal agent = asAgent(name);
  const auto scope = store::Scope::of(request.principal);
  const auto rules = CO_TRY(parts.agents->rulesOf(agent));
  if (!rules || !scope.has(name.tenant, name.agent)) {
    co_return std::unexpected(sandboxOf(parts, request, name).error());
  }
  const policy::Resources used = parts.service.reservedBy(agent);
  if (plan.size() <= kInPlace) co_return jsonResponse(200, judgePlan(*rules, plan, used));
  const auto shared = std::make_shared<const std::vector<policy::Operation>>(std::move(plan));
  json::object judged = co_await async::inBackground<json::object>(
      parts.background, [rules, shared, used] { return judgePlan(*rules, *shared, used); });
  co_return jsonResponse(200, judged);
}

}  // namespace

std::vector<Route> agentRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  std::vector<Route> routes = {{.method = "GET",
                                .pattern = "/v1/agents",
                                .access = needs(Permission::kAgentRead),
                                .query = {"tenant", "limit", "cursor"},
                                .handle = with(list)},
                               {.method = "POST",
                                .pattern = "/v1/agents/{agent}/sandbox",
                                .access = needs(Permission::kAgentManage),
                                .query = {"tenant"},
                                .handle = with(create),
                                .json_body = true},
                               {.method = "GET",
                                .pattern = "/v1/agents/{agent}/sandbox",
                                .access = needs(Permission::kAgentRead),
                                .query = {"tenant"},
                                .handle = with(show)},
                               {.method = "DELETE",
                                .pattern = "/v1/agents/{agent}/sandbox",
                                .access = needs(Permission::kAgentManage),
                                .query = {"tenant"},
                                .handle = with(remove)},
                               {.method = "POST",
                                .pattern = "/v1/agents/{agent}/sandbox:update",
                                .access = needs(Permission::kAgentManage),
                                .query = {"tenant"},
                                .handle = with(update),
                                .json_body = true},
                               {.method = "POST",
                                .pattern = "/v1/agents/{agent}/sandbox:validate",
                                .access = needs(Permission::kAgentRead),
                                .query = {"tenant"},
                                .handle = with(validate),
                                .json_body = true}};
  std::ranges::move(agentActivityRoutes(parts), std::back_inserter(routes));
  std::ranges::move(agentRuntimeRoutes(parts), std::back_inserter(routes));
  std::ranges::move(agentDryRunRoutes(parts), std::back_inserter(routes));
  return routes;
}

}  // namespace cloister::api
