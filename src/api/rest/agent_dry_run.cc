// SPDX-License-Identifier: Apache-2.0
// /v1/agents/{agent}/sandbox:dry-run: what a change would have done to the agent's stored requests.
#include "orchestrator/governance/agent_dry_run.h"

#include <utility>

#include "api/rest/agent_requests.h"
#include "api/rest/agent_routes.h"
#include "api/rest/requests.h"
#include "orchestrator/governance/policy_service.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kUsualLimit = 500;

// The agent's sandbox after the change; for an agent without one, the sandbox to make.
Result<model::AgentSandbox> proposedFor(RestParts& parts, const Request& request,
                                        const store::AgentName& name, const json::object& body) {
  auto found = parts.store.agents().sandbox(store::Scope::of(request.principal), name);
  if (found) {
    TRY(readAgentUpdate(body, *found));
    return found;
  }
  if (found.error().code != Code::kNotFound || !request.principal.sees(name.tenant, name.agent)) {
    return found;
  }
  model::AgentSandbox made;
  made.tenant = name.tenant;
  made.agent = name.agent;
  TRY(readAgentSandbox(body, made));
  return made;
}

Task<Result<Response>> dryRun(RestParts& parts, Request& request) {
  const policy::Levels& levels = *CO_TRY(levelsOf(parts));
  if (parts.policies == nullptr) {
    co_return fail(Code::kUnsupported, "dry-run: this service was put together without policies");
  }
  const store::AgentName name = CO_TRY(agentOf(request));
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, orchestrator::kMostReplayed));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  model::AgentSandbox proposed = CO_TRY(proposedFor(parts, request, name, body));
  const std::string level = proposed.level;
  const policy::AgentRules rules = CO_TRY(policy::makeAgentRules(levels, proposed));
  CO_TRY(policy::wallsOf(rules, base::wallMicros()));
  json::object answer = CO_TRY(co_await parts.policies->dryRun(
      std::move(proposed), static_cast<uint32_t>(limit.value_or(kUsualLimit))));
  answer["agent"] = name.agent;
  answer["tenant"] = name.tenant;
  answer["level"] = level;
  co_return jsonResponse(200, answer);
}

}  // namespace

std::vector<Route> agentDryRunRoutes(RestParts& parts) {
  return {{.method = "POST",
           .pattern = "/v1/agents/{agent}/sandbox:dry-run",
           .access = needs(Permission::kAgentManage),
           .query = {"tenant", "limit"},
           .handle = [&parts](Request& request) { return dryRun(parts, request); },
           .json_body = true}};
}

}  // namespace cloister::api
