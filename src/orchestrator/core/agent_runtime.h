// SPDX-License-Identifier: Apache-2.0
// The runtime of an agent (/v1/agents/{agent}/runtime): what its runs and sessions get where a
// request names nothing. A document of the ledger, of the tenant. Policy decides afterwards, as
// about any request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "model/limits.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "store/document_store.h"

namespace cloister::orchestrator {

inline constexpr std::string_view kAgentRuntimeKind = "agent.runtime";
// The only kernel that nodes offer to virtual machines: the one of microvm.image.
inline constexpr std::string_view kDefaultKernel = "default";

struct AgentRuntime {
  std::string runtime;  // "": policy's choice
  std::string kernel;   // of a virtual machine; "" or kDefaultKernel
  std::optional<uint64_t> memory_bytes;
  std::optional<uint32_t> cpu_millis;
};

// Reads the body of PUT, and the stored form. kInvalid names the member.
Result<AgentRuntime> readAgentRuntime(const base::json::object& object, const model::Limits& max);
// runtime, kernel, memory_mb, vcpus; null for what is absent.
base::json::object toJsonObject(const AgentRuntime& runtime);

// Gives the request the runtime, memory and processors of its agent, unless it names its own.
Result<> settleForAgent(store::Store& store, const model::Principal& principal,
                        model::RunRequest& request);

}  // namespace cloister::orchestrator
