// SPDX-License-Identifier: Apache-2.0
// The facts about networks in a question to policy, beyond the request and the rule. Values;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/network.h"

namespace cloister::policy {

// A destination that a person approved for an agent.
struct ApprovedDestination {
  model::NetworkEntry entry;
  std::string escalation;  // its id
  int64_t expires_at = 0;  // wall-clock microseconds

  friend bool operator==(const ApprovedDestination&, const ApprovedDestination&) = default;
};

// An agent's rules about networks.
struct AgentNetwork {
  std::string access = "allowed";    // `network_access` of its level, after grants and revocations
  uint32_t requests_per_minute = 0;  // 0: no bound
  std::vector<ApprovedDestination> approved;
};

// Whether a level with this `network_access` permits the tier: `denied` none, `internal_only`
// internal alone, the others each tier.
bool accessPermits(std::string_view access, std::string_view tier);

// Whether the agent may have this network as far as its own rules go: its level permits the tier,
// or approvals cover each destination of a request for the tier restricted.
bool agentMayHave(const AgentNetwork& agent, const model::NetworkRequest& request, int64_t now);

// The destinations valid at `now`.
std::vector<ApprovedDestination> approvedAt(const AgentNetwork& agent, int64_t now);

// Whether every connection that `inner` permits is permitted by `outer`. Absent methods and paths
// of `inner` take those of `outer`, and so do not count.
bool liesWithin(const model::NetworkEntry& inner, const model::NetworkEntry& outer);

// "api.example.com:80,8080 http GET /v1/*"
std::string destinationText(const model::NetworkEntry& entry);

}  // namespace cloister::policy
