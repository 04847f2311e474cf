// SPDX-License-Identifier: Apache-2.0
// /v1/agents/{agent}/runtime: what the runs and sessions of an agent get where requests name
// nothing.
#include "orchestrator/core/agent_runtime.h"

#include <utility>

#include "api/rest/agent_routes.h"
#include "api/rest/requests.h"
#include "base/id.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/documents.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using orchestrator::kAgentRuntimeKind;

Result<store::Document> find(RestParts& parts, const store::AgentName& name) {
  auto found = store::documents(parts.store)
                   .named({.tenant = name.tenant}, std::string(kAgentRuntimeKind), name.agent);
  if (found || found.error().code != Code::kNotFound) return found;
  return fail(Code::kNotFound, "the agent has no runtime of its own");
}

// Only an administrator may name another tenant, and others have nothing there.
Result<store::AgentName> nameIn(const Request& request) {
  store::AgentName name = TRY(agentOf(request));
  const model::Principal& who = request.principal;
  if (who.isAdmin() || (name.tenant == who.tenant && who.sees(name.tenant, name.agent))) {
    return name;
  }
  return fail(Code::kNotFound, "the agent has no runtime of its own");
}

model::AuditEvent eventOf(const char* action, const Request& request, json::object details) {
  return {.action = action,
          .subject = {},
          .principal = request.principal,
          .details = std::move(details)};
}

Result<Response> answer(const store::AgentName& name, const store::Document& stored) {
  const json::value value = TRY(base::parseJson(stored.json));
  json::object object = value.is_object() ? value.get_object() : json::object();
  object["agent"] = name.agent;
  object["version"] = stored.version;
  object["updated_at"] = base::formatTime(stored.updated_at);
  return jsonResponse(200, std::move(object));
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const store::AgentName name = CO_TRY(nameIn(request));
  const store::Document found = CO_TRY(find(parts, name));
  co_return answer(name, found);
}

Task<Result<Response>> put(RestParts& parts, Request& request) {
  const store::AgentName name = CO_TRY(nameIn(request));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  const json::object runtime =
      toJsonObject(CO_TRY(orchestrator::readAgentRuntime(body, parts.bounds.max)));
  store::NewDocument wanted{.id = base::newId("agr"),
                            .tenant = name.tenant,
                            .agent = {},
                            .kind = std::string(kAgentRuntimeKind),
                            .name = name.agent,
                            .json = base::toJson(runtime),
                            .at = base::wallMicros()};
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(store::putDocument, std::move(wanted), parts.agents_per_tenant,
                           eventOf("agent.runtime_set", request, {{"runtime", runtime}}));
  if (!stored) co_return std::unexpected(std::move(stored).error());
  co_return answer(name, *stored);
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  const store::AgentName name = CO_TRY(nameIn(request));
  const store::Document found = CO_TRY(find(parts, name));
  auto removed = co_await orchestrator::Ledger(parts.store)
                     .write(store::removeDocument,
                            store::DocumentKey{.by = {.tenant = name.tenant},
                                               .kind = std::string(kAgentRuntimeKind),
                                               .id = found.id},
                            eventOf("agent.runtime_removed", request, {}));
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

}  // namespace

std::vector<Route> agentRuntimeRoutes(RestParts& parts) {
  constexpr std::string_view kPath = "/v1/agents/{agent}/runtime";
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = kPath,
           .access = needs(Permission::kAgentRead),
           .query = {"tenant"},
           .handle = with(show)},
          {.method = "PUT",
           .pattern = kPath,
           .access = needs(Permission::kAgentManage),
           .query = {"tenant"},
           .handle = with(put),
           .json_body = true},
          {.method = "DELETE",
           .pattern = kPath,
           .access = needs(Permission::kAgentManage),
           .query = {"tenant"},
           .handle = with(remove)}};
}

}  // namespace cloister::api
