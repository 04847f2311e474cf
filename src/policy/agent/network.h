// SPDX-License-Identifier: Apache-2.0
// An agent's rules about networks, for its permits. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "policy/agent/rules.h"
#include "policy/network_grants.h"

namespace cloister::policy {

// `network_access` of the level, unless `network` was granted (every tier) or revoked (none, and no
// approval counts); the bound of its level; the destinations of its approvals valid at `now`.
AgentNetwork networkOf(const AgentRules& rules, int64_t now);

// The destinations of an approval of `pattern`: a host (ports 80 and 443), a host with its port, or
// a URL. Empty where no entry of a plan can say the same: a path of https, which cannot be read
// without inspection, and a * elsewhere than before a name ("*.example.org").
std::vector<model::NetworkEntry> destinationsOf(std::string_view pattern);

// kInvalid, about `host`: an approval of `pattern` would open no connection of the agent. `rules`:
// the agent's, null for none.
Result<> opensDestination(const AgentRules* rules, std::string_view pattern);

}  // namespace cloister::policy
