// SPDX-License-Identifier: Apache-2.0
// The configurations of Letta's sandboxes: requirements, and variables for all runs of tools. The
// newest configuration visible to a caller applies to the caller's runs.
#pragma once

#include <map>
#include <string>

#include "api/compat/letta/tool_run.h"

namespace cloister::api::compat::letta {

inline constexpr std::string_view kConfigKind = "letta.sandbox";
inline constexpr std::string_view kVariableKind = "letta.variable";

struct SandboxConfig {
  std::string id;  // "": there is none
  json::object config;
  std::map<std::string, std::string> env;
  std::string fingerprint;  // changes with everything that a tool sees of the configuration
};
Result<SandboxConfig> sandboxConfigFor(RestParts& parts, const model::Principal& principal);

// Adds the variables and requirements of `config` to the call. The call's own come first.
void apply(const SandboxConfig& config, ToolCall& call);

}  // namespace cloister::api::compat::letta
