// SPDX-License-Identifier: Apache-2.0
// Shared by the files about agents.
#pragma once

#include <vector>

#include "api/rest/rest.h"
#include "store/agent_store.h"

namespace cloister::api {

Result<store::AgentName> agentOf(const Request& request);
// The sandbox of the agent. kNotFound: the agent has none, and the error names the default level
// that holds the agent; an agent beyond the requester's scope gets the same answer.
Result<model::AgentSandbox> sandboxOf(RestParts& parts, const Request& request,
                                      const store::AgentName& name);
// The agent as a principal whose only right is to run.
model::Principal asAgent(const store::AgentName& name);
Result<const policy::Levels*> levelsOf(const RestParts& parts);
// Violations, audit, usage, statistics, health.
std::vector<Route> agentActivityRoutes(RestParts& parts);
// The dry run of a change.
std::vector<Route> agentDryRunRoutes(RestParts& parts);
// The runtime of an agent.
std::vector<Route> agentRuntimeRoutes(RestParts& parts);

}  // namespace cloister::api
