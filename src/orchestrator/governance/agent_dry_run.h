// SPDX-License-Identifier: Apache-2.0
// What a change of an agent's sandbox would have done to the agent's stored requests: each request
// is decided by the present rules and by the proposed ones. Nothing is recorded, counted or asked.
//
// On the executor of Control (one thread); the replay itself runs on a background thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/agent_sandbox.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/task.h"
#include "orchestrator/guard/agent_guard.h"
#include "policy/explain.h"

namespace cloister::orchestrator {

// They outlive the call.
struct DryRunParts {
  std::shared_ptr<Control> control;
  const AgentGuard& guard;
  PolicyEngine& engine;
  const policy::Levels& levels;
  // Operations that the table of safe operations may approve (escalation.safe_operations).
  std::vector<std::string> safe_operations;
};

inline constexpr uint32_t kMostReplayed = 1000;

// The answer of POST /v1/agents/{agent}/sandbox:dry-run (spec/openapi.yaml: AgentDryRun).
// `proposed` has the agent's names; `limit`: the newest requests, 1 to kMostReplayed. kInvalid: the
// proposal makes no rules.
Task<Result<base::json::object>> dryRun(DryRunParts parts, model::AgentSandbox proposed,
                                        uint32_t limit);

}  // namespace cloister::orchestrator
