// SPDX-License-Identifier: Apache-2.0
// Shared parts of `cloister agent …`.
#pragma once

#include <string>
#include <string_view>

#include "base/flags.h"
#include "base/result.h"
#include "cli/commands/resources.h"

namespace cloister::cli {

// --agent, required by all these commands except one.
Result<std::string> agentFlag(const Invocation& invocation);
// "/v1/agents/NAME/sandbox" + `rest`, with --tenant and further `query` ("a=b&c=d").
std::string sandboxPath(const Invocation& invocation, const std::string& agent,
                        std::string_view rest = "", std::string query = "");

inline constexpr std::string_view kWhichAgent = "which agent: give --agent NAME";
inline constexpr std::string_view kAgentSandbox = "/v1/agents/{--agent}/sandbox";

inline constexpr base::Flag kAgentFlag = {
    .name = "agent", .value = "NAME", .help = "whose sandbox it is"};
inline constexpr base::Flag kTenantFlag = {
    .name = "tenant", .value = "NAME", .help = "of the agent (default: yours)"};

// Tries a change of the agent's sandbox, `body` as for :update, and prints what it would have done
// to the agent's stored requests (sandbox_dry_run.cc).
Result<int> tryChange(const Invocation& invocation, const json::object& body);

}  // namespace cloister::cli
