// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/rules.h"

#include <type_traits>

namespace cloister::policy {
namespace {

constexpr std::string_view kOwn = "It was set for this agent.";

Result<CommandRule> commandRule(const std::string& text, const std::string& field,
                                Outcome outcome) {
  auto pattern = CommandPattern::parse(CommandPattern::Kind::kPattern, text);
  if (!pattern) return fail(Code::kInvalid, field + ": " + pattern.error().message, field);
  CommandRule rule;
  rule.pattern = *std::move(pattern);
  rule.why = kOwn;
  rule.outcome = outcome;
  return rule;
}

Result<> addOwn(const model::AgentSandbox& sandbox, Level& level) {
  if (sandbox.whitelist_mode) level.allowed.clear();
  for (const std::string& text : sandbox.allowed_commands)
    level.allowed.push_back(TRY(commandRule(text, "allowed_commands", Outcome::kAllow)));
  for (const std::string& text : sandbox.forbidden_commands)
    level.forbidden.push_back(TRY(commandRule(text, "forbidden_commands", Outcome::kDeny)));
  for (const std::string& text : sandbox.dangerous_patterns) {
    CommandRule rule = TRY(commandRule(text, "dangerous_patterns", Outcome::kDeny));
    rule.risk = "dangerous";
    level.dangerous.push_back(std::move(rule));
  }
  for (const model::ParameterRestriction& one : sandbox.parameter_restrictions) {
    level.parameters.push_back(ParameterRule{.command = one.command,
                                             .why = std::string(kOwn),
                                             .allowed_flags = one.allowed_flags,
                                             .forbidden_flags = one.forbidden_flags,
                                             .allowed_paths = one.allowed_paths});
  }
  for (const std::string& text : sandbox.forbidden_paths)
    level.forbidden_paths.push_back(PathRule{.path = text, .why = std::string(kOwn)});
  return {};
}

void readEscalation(const model::AgentEscalation& own, AgentRules& rules) {
  const LevelEscalation& level = rules.level.escalation;
  rules.auto_approve_safe = own.auto_approve_safe.value_or(level.auto_approve_safe);
  if (own.auto_approve_safe) rules.auto_approve_by = approved_by::kSandbox;
  rules.require_human_approval = own.require_human_approval.value_or(level.require_human_approval);
  rules.timeout_seconds = own.timeout_seconds ? own.timeout_seconds : level.timeout_seconds;
  rules.fallback_action = own.fallback_action.value_or(level.fallback_action);
}

}  // namespace

std::string levelNames(const Levels& levels) {
  std::string known;
  for (const auto& [name, level] : levels.levels)
    (known += known.empty() ? "" : ", ") += name;
  return known;
}

Result<AgentRules> makeLevelRules(const Levels& levels, const std::string& level,
                                  const std::string& agent) {
  const auto found = levels.levels.find(level);
  if (found == levels.levels.end()) {
    return fail(Code::kInvalid,
                "level: there is no level \"" + level + "\"; use one of " + levelNames(levels),
                "level");
  }
  AgentRules rules;
  rules.agent = agent;
  rules.level = found->second;
  rules.bounds = levels.bounds;
  rules.image = levels.image;
  rules.helpers = levels.helpers;
  rules.safe = levels.safe;
  rules.limits = found->second.limits;
  readEscalation({}, rules);
  return rules;
}

namespace {

void applyOwn(const model::AgentLimits& own, LevelLimits& limits) {
  const auto take = [](const std::optional<uint64_t>& from, auto& to) {
    if (from) to = static_cast<std::remove_reference_t<decltype(*to)>>(*from);
  };
  take(own.memory_mb, limits.memory_mb);
  take(own.cpu_percent, limits.cpu_percent);
  take(own.time_seconds, limits.time_seconds);
  take(own.disk_mb, limits.disk_mb);
  take(own.file_mb, limits.file_mb);
  take(own.concurrent, limits.concurrent);
  take(own.requests_per_minute, limits.requests_per_minute);
}

}  // namespace

Result<AgentRules> makeAgentRules(const Levels& levels, const model::AgentSandbox& sandbox) {
  AgentRules rules = TRY(makeLevelRules(levels, sandbox.level, sandbox.agent));
  TRY(addOwn(sandbox, rules.level));
  rules.nested = sandbox.nested;
  rules.granted.insert(sandbox.granted_operations.begin(), sandbox.granted_operations.end());
  rules.revoked.insert(sandbox.revoked_operations.begin(), sandbox.revoked_operations.end());
  if (rules.granted.contains("command_execution")) {
    rules.level.allowed.push_back(TRY(commandRule("*", "allowed_commands", Outcome::kAllow)));
  }
  applyOwn(sandbox.limits, rules.limits);
  rules.temporary = sandbox.temporary_permissions;
  readEscalation(sandbox.escalation, rules);
  return rules;
}

std::vector<std::string> warningsOf(const AgentRules& rules) {
  std::vector<std::string> warnings = warningsOf(rules.level);
  const bool open = rules.level.network_access != "denied" || rules.granted.contains("network");
  if (open) return {};
  if (warnings.empty() && rules.limits.requests_per_minute) {
    warnings.push_back("requests_per_minute has no effect: level " + rules.level.name +
                       " has no network");
  }
  return warnings;
}

}  // namespace cloister::policy
