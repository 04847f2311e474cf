// SPDX-License-Identifier: Apache-2.0
#include "api/rest/rest.h"

#include <iterator>

namespace cloister::api {

std::vector<Route> restRoutes(RestParts& parts) {
  std::vector<Route> all;
  for (auto routes :
       {executionRoutes, dependencyRoutes, eventRoutes,  sessionRoutes, kernelRoutes,
        fileRoutes,      memoryRoutes,     watchRoutes,  portRoutes,    artifactRoutes,
        snapshotRoutes,  escalationRoutes, keyRoutes,    auditRoutes,   poolRoutes,
        commandRoutes,   agentRoutes,      policyRoutes, quotaRoutes,   secretRoutes,
        toolRoutes,      operationRoutes}) {
    std::vector<Route> some = routes(parts);
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace cloister::api
