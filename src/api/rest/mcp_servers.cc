// SPDX-License-Identifier: Apache-2.0
// /v1/mcp-servers: MCP servers hosted in sandboxes.
#include <utility>

#include "api/mcp/hosted_servers.h"
#include "api/rest/requests.h"

namespace cloister::api {
namespace {

namespace json = base::json;

Result<mcp::HostedServers*> serversOf(const RestParts& parts) {
  if (parts.mcp_servers != nullptr) return parts.mcp_servers;
  return fail(Code::kUnsupported, "MCP servers: this service hosts none");
}

Task<Result<Response>> add(RestParts& parts, Request& request) {
  mcp::HostedServers* servers = CO_TRY(serversOf(parts));
  json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  request.body.clear();
  request.body_read();
  auto added = co_await servers->add(request.principal, std::move(body));
  if (!added) co_return std::unexpected(std::move(added).error());
  co_return jsonResponse(201, *std::move(added));
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  mcp::HostedServers* servers = CO_TRY(serversOf(parts));
  json::array items = CO_TRY(servers->list(request.principal));
  co_return jsonResponse(200, json::object{{"mcp_servers", std::move(items)}});
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  mcp::HostedServers* servers = CO_TRY(serversOf(parts));
  auto removed = co_await servers->remove(request.principal, request.params[0]);
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

}  // namespace

std::vector<Route> mcpServerRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = "/v1/mcp-servers",
           .access = needs(Permission::kSessionRead),
           .query = {},
           .handle = with(list)},
          {.method = "POST",
           .pattern = "/v1/mcp-servers",
           .access = needs(Permission::kSessionUse),
           .query = {},
           .handle = with(add),
           .json_body = true},
          {.method = "DELETE",
           .pattern = "/v1/mcp-servers/{name}",
           .access = needs(Permission::kSessionUse),
           .query = {},
           .handle = with(remove)}};
}

}  // namespace cloister::api
