// SPDX-License-Identifier: Apache-2.0
// The part of an agent's rules that the kernel enforces in the agent's sandboxes (model/walls.h),
// for every program and every spelling of a path. The other rules compare text with text
// (validate.h); HeldRules::by_text lists these rules. Pure: no I/O and no clock; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/walls.h"
#include "policy/agent/network.h"
#include "policy/agent/rules.h"

namespace cloister::policy {

struct HeldRules {
  model::Walls walls;
  std::vector<std::string> by_text;  // rules that no kernel can enforce, for a reader
  bool runs = true;                  // whether command execution is not revoked
  // Total processor share of all its sandboxes, in thousandths; 0: only each sandbox's own limit.
  uint32_t cpu_millis = 0;
  AgentNetwork network = {};
};

// `now`: wall-clock microseconds. kInvalid: more rules than a permit can carry. Temporary approvals
// open exactly the approved parts, and everything else stays confined. If the programs of an
// approved command are unknown, only forbidden programs are confined.
Result<HeldRules> wallsOf(const AgentRules& rules, int64_t now);

// Paths that programs may change by the level and grants, without approvals.
model::Walls::Writes writesOf(const AgentRules& rules);

}  // namespace cloister::policy
