// SPDX-License-Identifier: Apache-2.0
// What the files about agents share.
#pragma once

#include <vector>

#include "api/rest/rest.h"
#include "store/agent_store.h"

namespace cloister::api {

Result<store::AgentName> agentOf(const Request& request);
// The agent as the one who asks, with no right but to run.
model::Principal asAgent(const store::AgentName& name);
Result<const policy::Levels*> levelsOf(const RestParts& parts);
// Violations, audit, usage, statistics, health.
std::vector<Route> agentActivityRoutes(RestParts& parts);

}  // namespace cloister::api
