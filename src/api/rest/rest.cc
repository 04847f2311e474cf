// SPDX-License-Identifier: Apache-2.0
#include "api/rest/rest.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace cloister::api {
namespace {

constexpr std::string_view kOfSession = "/v1/sessions/{id}";

// Lets the paths of a session have its name in place of its id. A link's path has the id, and a
// request by a link has no principal that sees names.
void takeNames(RestParts& parts, Route& route) {
  if (!route.pattern.starts_with(kOfSession)) return;
  route.handle = [&parts,
                  inner = std::move(route.handle)](Request& request) -> Task<Result<Response>> {
    if (!request.principal.tenant.empty()) {
      request.params[0] = CO_TRY(parts.sessions.idOf(request.principal, request.params[0]));
    }
    co_return co_await inner(request);
  };
}

// Answers that may be a page from a sandbox.
constexpr auto kContent = std::to_array<std::string_view>({
    "/v1/artifacts/{id}/content",
    "/v1/audit/export",
    "/v1/executions/{id}/logs",
    "/v1/executions/{id}/sbom",
    "/v1/sessions/{id}/archive",
    "/v1/sessions/{id}/files/{path}",
});

// The rule for the cookie of the web interface. Ports lead to servers inside, which must never see
// the cookie used.
Cookie cookieRule(const Route& route) {
  const auto other = route.access.orElse();
  const bool port = other == Access::Or::kPort || other == Access::Or::kHostPort;
  if (port || route.passes_on || !route.pattern.starts_with("/v1/")) return Cookie::kRefused;
  return std::ranges::find(kContent, route.pattern) == kContent.end() ? Cookie::kTaken
                                                                      : Cookie::kFetched;
}

}  // namespace

std::vector<Route> restRoutes(RestParts& parts) {
  std::vector<Route> all;
  for (auto routes :
       {executionRoutes, dependencyRoutes, eventRoutes,     sessionRoutes, kernelRoutes,
        fileRoutes,      memoryRoutes,     watchRoutes,     portRoutes,    artifactRoutes,
        snapshotRoutes,  escalationRoutes, keyRoutes,       auditRoutes,   poolRoutes,
        commandRoutes,   agentRoutes,      policyRoutes,    quotaRoutes,   secretRoutes,
        toolRoutes,      operationRoutes,  mcpServerRoutes, doctorRoutes,  auditProofRoutes,
        signInRoutes}) {
    std::vector<Route> some = routes(parts);
    for (Route& route : some)
      takeNames(parts, route);
    for (Route& route : some)
      route.cookie = cookieRule(route);
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace cloister::api
