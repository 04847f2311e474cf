// SPDX-License-Identifier: Apache-2.0
// The bodies of /v1/agents: how a sandbox is made and changed, and how it is shown.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/agent_sandbox.h"
#include "policy/agent/rules.h"

namespace cloister::api {

// The body of a creation into a sandbox that has its names and times.
Result<> readAgentSandbox(const base::json::object& body, model::AgentSandbox& sandbox);
// The body of an update: what it names is changed, all else stays.
Result<> readAgentUpdate(const base::json::object& body, model::AgentSandbox& sandbox);
// As the API gives it; with what it comes to, where its level is known.
base::json::object agentObject(const model::AgentSandbox& sandbox, const policy::Levels& levels);
base::json::object violationObject(const model::Violation& violation);

}  // namespace cloister::api
