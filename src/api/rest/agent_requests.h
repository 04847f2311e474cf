// SPDX-License-Identifier: Apache-2.0
// The bodies of /v1/agents: creation, change and display of a sandbox.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/agent_sandbox.h"
#include "policy/agent/rules.h"

namespace cloister::api {

// Reads the body of a creation into a sandbox with its names and times set.
Result<> readAgentSandbox(const base::json::object& body, model::AgentSandbox& sandbox);
// Reads the body of an update: named members change, all others stay.
Result<> readAgentUpdate(const base::json::object& body, model::AgentSandbox& sandbox);
// The API's form, with the effective rules; an error where the level is unknown.
base::json::object agentObject(const model::AgentSandbox& sandbox,
                               const Result<policy::AgentRules>& rules);
base::json::object violationObject(const model::Violation& violation);

}  // namespace cloister::api
