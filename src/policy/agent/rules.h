// SPDX-License-Identifier: Apache-2.0
// AgentRules: a level and one agent's own additions, prepared for questions. Immutable once made;
// thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/agent_sandbox.h"
#include "policy/command/levels.h"

namespace cloister::policy {

// Which setting decides whether a rule approves safe operations.
namespace approved_by {
inline constexpr std::string_view kSandbox = "sandbox";  // of the agent; goes before the others
inline constexpr std::string_view kPolicy = "policy";    // `escalation policy` of the agent
inline constexpr std::string_view kLevel = "level";
}  // namespace approved_by

struct AgentRules {
  std::string agent;
  Level level;  // with the agent's own commands and paths
  CommandBounds bounds;
  std::shared_ptr<const ImageNames> image;
  std::vector<Helpers> helpers;  // of the document
  LevelLimits limits;            // the agent's own, else the level's
  std::set<std::string, std::less<>> granted;
  std::set<std::string, std::less<>> revoked;
  std::vector<model::TemporaryPermission> temporary;
  bool nested = false;  // model::AgentSandbox
  bool auto_approve_safe = false;
  std::string_view auto_approve_by = approved_by::kLevel;
  std::vector<std::string> require_human_approval;
  std::optional<uint64_t> timeout_seconds;  // of an escalation; absent: the configuration's
  std::string fallback_action = "deny";
  std::vector<SafeOperation> safe;  // of the document
};

// kInvalid, with `field`, for an invalid pattern or an unknown level.
Result<AgentRules> makeAgentRules(const Levels& levels, const model::AgentSandbox& sandbox);
// The rules of an unmodified level, for an agent without a sandbox.
Result<AgentRules> makeLevelRules(const Levels& levels, const std::string& level,
                                  const std::string& agent);
// Warnings about settings of the agent or its level without effect.
std::vector<std::string> warningsOf(const AgentRules& rules);
// "isolated, restricted, standard"
std::string levelNames(const Levels& levels);

}  // namespace cloister::policy
