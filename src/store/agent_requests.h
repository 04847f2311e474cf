// SPDX-License-Identifier: Apache-2.0
// The executions of one agent with their stored requests, to judge the requests again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/principal.h"
#include "store/agent_store.h"
#include "store/store.h"

namespace cloister::store {

struct AgentRequest {
  std::string execution;
  std::string session_id;
  model::Principal principal;  // without roles and key
  // As stored; "" if no longer legible; nullopt: retention removed the request.
  std::optional<std::string> request_json;
};

// Newest first, at most `limit` (1..1000).
Result<std::vector<AgentRequest>> agentRequests(Reads& ledger, const AgentName& agent,
                                                uint32_t limit);

}  // namespace cloister::store
