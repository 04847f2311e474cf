// SPDX-License-Identifier: Apache-2.0
// /v1/quotas: quotas and use of tenants and agents.
#include "store/rows/quotas.h"

#include <utility>

#include "api/rest/requests.h"
#include "model/agent_sandbox.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/quota.h"
#include "store/quota_store.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using model::QuotaScope;

Result<orchestrator::Quotas*> quotasOf(RestParts& parts) {
  if (auto* quotas = parts.service.quotas(); quotas != nullptr) return quotas;
  return fail(Code::kUnsupported, "quotas: this service has none");
}

json::object quotaObject(const orchestrator::Quotas& quotas, const QuotaScope& scope) {
  const model::QuotaUse use = quotas.use(scope);
  return {{"tenant", scope.tenant},
          {"agent", scope.agent.empty() ? json::value(nullptr) : json::value(scope.agent)},
          {"own", model::toJsonObject(quotas.own(scope))},
          {"effective", model::toJsonObject(quotas.of(scope))},
          {"use",
           {{"concurrent", use.running},
            {"sessions", use.sessions},
            {"runs_per_minute", use.runs_this_minute},
            {"cpu_seconds_per_hour", use.cpu_seconds},
            {"memory_mb", use.memory_mb}}}};
}

// Whose quotas a request may be about: its own tenant's, and for an administrator any. Another
// tenant's are as if there were none.
Result<std::string> tenantOf(const Request& request, const std::string& tenant) {
  TRY(model::checkAgentName(tenant, "tenant"));
  const auto within = store::Scope::of(request.principal).tenant();
  if (!within || *within == tenant) return tenant;
  return fail(Code::kNotFound, "there are no quotas of tenant " + tenant);
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const orchestrator::Quotas& quotas = *CO_TRY(quotasOf(parts));
  const auto within = store::Scope::of(request.principal).tenant();
  std::string tenant = within.value_or("");
  if (const auto named = queryText(request, "tenant")) tenant = CO_TRY(tenantOf(request, *named));
  const std::string agent = queryText(request, "agent").value_or("");
  json::array items;
  const auto add = [&](const QuotaScope& scope) { items.push_back(quotaObject(quotas, scope)); };
  if (!agent.empty()) {
    CO_TRY(model::checkAgentName(agent, "query.agent"));
    if (!request.principal.sees(request.principal.tenant, agent)) {
      co_return fail(Code::kNotFound, "there are no quotas of agent " + agent);
    }
    add({tenant.empty() ? request.principal.tenant : tenant, agent});
    co_return jsonResponse(200, json::object{{"quotas", std::move(items)}});
  }
  std::vector<QuotaScope> scopes = quotas.scopes(tenant);
  std::erase_if(scopes, [&](const QuotaScope& of) {
    return !of.agent.empty() && !request.principal.sees(of.tenant, of.agent);
  });
  const QuotaScope own{tenant, ""};
  if (!tenant.empty() && std::ranges::find(scopes, own) == scopes.end()) add(own);
  if (scopes.size() > kMaxList) scopes.resize(kMaxList);
  for (const QuotaScope& scope : scopes)
    add(scope);
  co_return jsonResponse(200, json::object{{"quotas", std::move(items)}});
}

// The body replaces all quotas; {} means none.
Task<Result<Response>> put(RestParts& parts, Request& request, QuotaScope scope) {
  orchestrator::Quotas& quotas = *CO_TRY(quotasOf(parts));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  const model::QuotaRecord record{scope, CO_TRY(model::parseQuota(body, "", !scope.agent.empty()))};
  const model::AuditEvent event{.action = "quota.set",
                                .subject = store::quotaSubject(scope),
                                .principal = request.principal,
                                .details = {{"quota", model::toJsonObject(record.quota)}}};
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(store::putQuota, record, parts.agents_per_tenant, event);
  if (!stored) co_return std::unexpected(stored.error());
  quotas.set(record);
  parts.service.quotasChanged();
  co_return jsonResponse(200, quotaObject(quotas, scope));
}

Task<Result<Response>> putTenant(RestParts& parts, Request& request) {
  const std::string tenant = CO_TRY(tenantOf(request, request.params[0]));
  co_return co_await put(parts, request, {tenant, ""});
}

Task<Result<Response>> putAgent(RestParts& parts, Request& request) {
  CO_TRY(model::checkAgentName(request.params[0], "url.agent"));
  const std::string named = queryText(request, "tenant").value_or(request.principal.tenant);
  const std::string tenant = CO_TRY(tenantOf(request, named));
  co_return co_await put(parts, request, {tenant, request.params[0]});
}

}  // namespace

std::vector<Route> quotaRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = "/v1/quotas",
           .access = needs(Permission::kQuotaRead),
           .query = {"tenant", "agent"},
           .handle = with(list)},
          {.method = "PUT",
           .pattern = "/v1/quotas/tenants/{tenant}",
           .access = needs(Permission::kQuotaGrant),
           .query = {},
           .handle = with(putTenant),
           .json_body = true},
          {.method = "PUT",
           .pattern = "/v1/quotas/agents/{agent}",
           .access = needs(Permission::kQuotaManage),
           .query = {"tenant"},
           .handle = with(putAgent),
           .json_body = true}};
}

}  // namespace cloister::api
