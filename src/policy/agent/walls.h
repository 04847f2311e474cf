// SPDX-License-Identifier: Apache-2.0
// What of an agent's rules the kernel holds in its sandboxes (model/walls.h), whatever is run there
// and however it was spelt. The rest is text compared with text (validate.h): there the list says
// which rules. Pure: no I/O and no clock; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/walls.h"
#include "policy/agent/rules.h"

namespace cloister::policy {

struct HeldRules {
  model::Walls walls;
  std::vector<std::string> by_text;  // rules that no kernel can hold, for a reader
  bool runs = true;                  // programs may be run at all: that was not revoked
  // Of a processor, in thousandths, for all its sandboxes together; 0: as much as each may have.
  uint32_t cpu_millis = 0;
};

// `now`: wall-clock microseconds. kInvalid: more rules than a permit can carry. What is approved
// for a time is in no wall's way, and all around it stays behind its wall; where it cannot be told
// what an approved command will run, there is no wall about programs but those that are forbidden.
Result<HeldRules> wallsOf(const AgentRules& rules, int64_t now);

// Where programs may change files by the level and what is granted, without approvals.
model::Walls::Writes writesOf(const AgentRules& rules);

}  // namespace cloister::policy
