// SPDX-License-Identifier: Apache-2.0
#include "policy/command/levels.h"

#include <algorithm>
#include <span>

#include "model/agent_sandbox.h"
#include "model/yaml.h"

namespace cloister::policy {
namespace {

using base::ObjectReader;
namespace json = base::json;

constexpr size_t kMaxRules = 512;

std::unexpected<Error> wrong(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

// f(object, path) for each map of a list.
template <class T, class Fn>
Result<std::vector<T>> readList(ObjectReader& reader, std::string_view name, Fn&& read) {
  std::vector<T> all;
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return all;
  if (items->size() > kMaxRules) return wrong(reader.pathOf(name), "has too many rules");
  for (const json::value& item : *items) {
    const std::string path = reader.pathOf(name) + "[" + std::to_string(all.size()) + "]";
    if (!item.is_object()) return wrong(path, "must be a map");
    ObjectReader inner(item.get_object(), path);
    all.push_back(TRY(read(inner)));
    TRY(inner.finish());
  }
  return all;
}

Result<Outcome> readOutcome(ObjectReader& reader, std::string_view name, Outcome otherwise) {
  const auto text = TRY(reader.text(name));
  if (!text) return otherwise;
  for (const Outcome outcome : {Outcome::kAllow, Outcome::kEscalate, Outcome::kDeny}) {
    if (*text == outcomeName(outcome)) return outcome;
  }
  return wrong(reader.pathOf(name), "must be allow, escalate or deny");
}

Result<CommandRule> readRule(ObjectReader& reader, Outcome otherwise, bool dangerous) {
  using Kind = CommandPattern::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {{"exact", Kind::kExact},
                                                          {"prefix", Kind::kPrefix},
                                                          {"regex", Kind::kRegex},
                                                          {"builtin", Kind::kBuiltin},
                                                          {"pattern", Kind::kPattern}};
  CommandRule rule;
  bool given = false;
  for (const auto& [name, kind] : kKinds) {
    const auto text = TRY(reader.text(name));
    if (!text) continue;
    if (given) return wrong(reader.pathOf(name), "a rule has one pattern");
    given = true;
    auto pattern = CommandPattern::parse(kind, *text);
    if (!pattern) return wrong(reader.pathOf(name), pattern.error().message);
    rule.pattern = *std::move(pattern);
  }
  if (!given)
    return wrong(reader.pathOf("pattern"), "is required (or exact, prefix, regex, builtin)");
  rule.why = TRY(model::requiredText(reader, "why"));
  rule.outcome = otherwise;
  if (dangerous) rule.risk = TRY(model::requiredText(reader, "risk"));
  if (otherwise != Outcome::kAllow) {
    rule.outcome = TRY(readOutcome(reader, "outcome", otherwise));
    rule.mitigation = TRY(reader.text("mitigation")).value_or("");
    if (rule.outcome == Outcome::kAllow)
      return wrong(reader.pathOf("outcome"), "must be deny or escalate");
  }
  return rule;
}

Result<ParameterRule> readParameters(ObjectReader& reader) {
  ParameterRule rule;
  rule.command = TRY(model::requiredText(reader, "command"));
  rule.why = TRY(model::requiredText(reader, "why"));
  rule.allowed_flags = TRY(model::textList(reader, "allowed_flags"));
  rule.forbidden_flags = TRY(model::textList(reader, "forbidden_flags"));
  rule.allowed_paths = TRY(model::textList(reader, "allowed_paths"));
  return rule;
}

Result<PathRule> readPath(ObjectReader& reader) {
  PathRule rule{.path = TRY(model::requiredText(reader, "path")),
                .why = TRY(model::requiredText(reader, "why"))};
  const std::string access = TRY(reader.text("access")).value_or("all");
  if (access != "all" && access != "write") {
    return wrong(reader.pathOf("access"), "must be all, or write (then it may be read)");
  }
  rule.reads = access == "all";
  rule.escalation = TRY(reader.boolean("escalation")).value_or(true);
  return rule;
}

Result<std::string> oneOf(ObjectReader& reader, std::string_view name, std::string otherwise,
                          std::span<const std::string_view> known) {
  std::string text = TRY(reader.text(name)).value_or(std::move(otherwise));
  if (std::ranges::find(known, text) != known.end()) return text;
  std::string list;
  for (const std::string_view each : known)
    list.append(list.empty() ? "" : ", ").append(each);
  return wrong(reader.pathOf(name), "must be one of " + list);
}

Result<std::vector<std::string>> readFileOperations(ObjectReader& reader) {
  constexpr std::string_view kName = "allowed_file_operations";
  constexpr std::string_view kKnown[] = {
      "read", "write", "create", "delete", "write_temp", "write_non_config", "delete_non_system"};
  std::vector<std::string> operations = TRY(model::textList(reader, kName));
  for (const std::string& one : operations) {
    if (std::ranges::find(kKnown, one) == std::end(kKnown)) {
      return wrong(reader.pathOf(kName),
                   "there is no \"" + one +
                       "\"; known are read, write, create, delete, write_temp, write_non_config, "
                       "delete_non_system");
    }
  }
  return operations;
}

Result<> readPermissions(ObjectReader& reader, Level& level) {
  const auto rules = [&](std::string_view name, Outcome outcome, bool dangerous) {
    return readList<CommandRule>(
        reader, name, [&](ObjectReader& inner) { return readRule(inner, outcome, dangerous); });
  };
  level.allowed = TRY(rules("allowed_commands", Outcome::kAllow, false));
  level.forbidden = TRY(rules("forbidden_commands", Outcome::kDeny, false));
  level.dangerous = TRY(rules("dangerous_patterns", Outcome::kDeny, true));
  level.parameters = TRY(readList<ParameterRule>(reader, "parameter_restrictions", readParameters));
  level.forbidden_paths = TRY(readList<PathRule>(reader, "forbidden_paths", readPath));
  level.file_operations = TRY(readFileOperations(reader));
  constexpr std::string_view kNetworks[] = {"denied", "internal_only", "allowed_with_monitoring",
                                            "allowed"};
  level.network_access = TRY(oneOf(reader, "network_access", "denied", kNetworks));
  level.quality_gates = TRY(model::textList(reader, "quality_gate_permissions"));
  level.workflows = TRY(model::textList(reader, "workflow_permissions"));
  level.doubt = TRY(readOutcome(reader, "doubt", Outcome::kEscalate));
  level.project_code = TRY(readOutcome(reader, "project_code", Outcome::kEscalate));
  return reader.finish();
}

Result<LevelLimits> readLimits(ObjectReader& reader) {
  constexpr int64_t kMost = int64_t{1} << 30;
  constexpr uint64_t kMinute = 60;
  const auto number = [&](std::string_view name) -> Result<std::optional<uint64_t>> {
    const auto value = TRY(reader.integer(name, 0, kMost));
    return value ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
  };
  LevelLimits limits;
  limits.memory_mb = TRY(number("max_memory_mb"));
  limits.cpu_percent = TRY(number("max_cpu_percentage"));
  limits.disk_mb = TRY(number("max_disk_space_mb"));
  if (const auto minutes = TRY(number("max_execution_time_minutes")))
    limits.time_seconds = *minutes * kMinute;
  limits.file_mb = TRY(number("max_file_size_mb"));
  limits.concurrent = TRY(number("max_concurrent_operations"));
  limits.requests_per_minute = TRY(number("max_network_requests_per_minute"));
  TRY(reader.finish());
  return limits;
}

Result<LevelEscalation> readEscalation(ObjectReader& reader) {
  constexpr int64_t kMostSeconds = int64_t{30} * 24 * 3600;
  constexpr std::string_view kFallbacks[] = {"deny", "allow_read_only"};
  LevelEscalation escalation;
  escalation.auto_approve_safe =
      TRY(reader.boolean("auto_approve_safe_operations")).value_or(false);
  escalation.require_human_approval = TRY(model::textList(reader, "require_human_approval"));
  for (const std::string& kind : escalation.require_human_approval) {
    if (model::isApprovalKind(kind)) continue;
    return wrong(reader.pathOf("require_human_approval"),
                 "\"" + kind + "\" is none of " + model::approvalKindNames());
  }
  if (const auto n = TRY(reader.integer("escalation_timeout_seconds", 1, kMostSeconds)))
    escalation.timeout_seconds = static_cast<uint64_t>(*n);
  escalation.fallback_action =
      TRY(oneOf(reader, "fallback_action", escalation.fallback_action, kFallbacks));
  TRY(reader.finish());
  return escalation;
}

// With `level` as text.
struct SafeText {
  SafeOperation operation;
  std::string level;
};

Result<SafeText> readSafe(ObjectReader& reader) {
  constexpr std::string_view kCommand = "command_execution";
  constexpr std::string_view kKnown[] = {"file_read", "file_write", "file_delete", kCommand};
  SafeText safe;
  safe.operation.operation = TRY(oneOf(reader, "operation", "", kKnown));
  safe.operation.why = TRY(model::requiredText(reader, "why"));
  if (safe.operation.operation == kCommand) {
    safe.level = TRY(model::requiredText(reader, "level"));
  } else {
    safe.operation.path = TRY(model::requiredText(reader, "path"));
  }
  return safe;
}

Result<> addSafe(std::vector<SafeText> all, Levels& levels) {
  for (SafeText& safe : all) {
    if (!safe.level.empty()) {
      const auto found = levels.levels.find(safe.level);
      if (found == levels.levels.end()) {
        return wrong("safe_operations[" + std::to_string(levels.safe.size()) + "].level",
                     "there is no such level");
      }
      safe.operation.level = std::make_shared<const Level>(found->second);
    }
    levels.safe.push_back(std::move(safe.operation));
  }
  return {};
}

Result<LoweringRule> readLowering(ObjectReader& reader) {
  constexpr int64_t kMostCount = 1'000'000;
  constexpr int64_t kMostMinutes = int64_t{366} * 24 * 60;
  LoweringRule rule;
  rule.from = TRY(model::requiredText(reader, "from"));
  rule.to = TRY(model::requiredText(reader, "to"));
  const auto after = TRY(reader.integer("after", 1, kMostCount));
  if (!after) return wrong(reader.pathOf("after"), "is required");
  rule.after = static_cast<uint32_t>(*after);
  rule.within_minutes =
      static_cast<uint32_t>(TRY(reader.integer("within_minutes", 1, kMostMinutes)).value_or(60));
  rule.why = TRY(model::requiredText(reader, "why"));
  return rule;
}

Result<Helpers> readHelpers(ObjectReader& reader) {
  Helpers helpers;
  helpers.of = TRY(model::textList(reader, "of"));
  helpers.starts = TRY(model::textList(reader, "starts"));
  for (const auto& [member, names] :
       {std::pair("of", &helpers.of), std::pair("starts", &helpers.starts)}) {
    if (names->empty()) return wrong(reader.pathOf(member), "is required: names of programs");
  }
  helpers.why = TRY(model::requiredText(reader, "why"));
  return helpers;
}

// Checks that each rule names existing levels.
Result<> checkLowering(const Levels& levels) {
  for (size_t i = 0; i < levels.lowering.size(); ++i) {
    const LoweringRule& rule = levels.lowering[i];
    for (const auto& [member, level] : {std::pair("from", rule.from), std::pair("to", rule.to)}) {
      if (levels.levels.contains(level)) continue;
      return wrong("lowering[" + std::to_string(i) + "]." + member, "there is no such level");
    }
    if (rule.from == rule.to) {
      return wrong("lowering[" + std::to_string(i) + "].to", "must be another level");
    }
  }
  return {};
}

Result<Level> readLevel(const json::object& object, std::string_view name) {
  ObjectReader reader(object, "sandbox_levels." + std::string(name));
  Level level;
  level.name = name;
  level.description = TRY(model::requiredText(reader, "description"));
  level.why = TRY(model::requiredText(reader, "why"));
  const json::object* permissions = TRY(reader.object("permissions"));
  if (permissions == nullptr) return wrong(reader.pathOf("permissions"), "is required");
  ObjectReader inner(*permissions, reader.pathOf("permissions"));
  TRY(readPermissions(inner, level));
  if (const auto* limits = TRY(reader.object("resource_limits"))) {
    ObjectReader of(*limits, reader.pathOf("resource_limits"));
    level.limits = TRY(readLimits(of));
  }
  if (const auto* policy = TRY(reader.object("escalation_policy"))) {
    ObjectReader of(*policy, reader.pathOf("escalation_policy"));
    level.escalation = TRY(readEscalation(of));
  }
  TRY(reader.finish());
  return level;
}

Result<CommandBounds> readBounds(ObjectReader& document) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  constexpr int64_t kMostDepth = 200;
  constexpr int64_t kMostWords = 100'000;
  CommandBounds bounds;
  const json::object* object = TRY(document.object("bounds"));
  if (object == nullptr) return bounds;
  ObjectReader reader(*object, "bounds");
  if (auto value = TRY(reader.integer("max_bytes", 1, kMostBytes)))
    bounds.max_bytes = static_cast<size_t>(*value);
  if (auto value = TRY(reader.integer("max_depth", 1, kMostDepth)))
    bounds.max_depth = static_cast<int>(*value);
  if (auto value = TRY(reader.integer("max_commands", 1, kMostWords)))
    bounds.max_commands = static_cast<size_t>(*value);
  if (auto value = TRY(reader.integer("max_words", 1, kMostWords)))
    bounds.max_words = static_cast<size_t>(*value);
  TRY(reader.finish());
  return bounds;
}

}  // namespace

std::string_view outcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAllow:
      return "allow";
    case Outcome::kEscalate:
      return "escalate";
    case Outcome::kDeny:
      return "deny";
  }
  return "deny";
}

Result<Levels> parseLevels(std::string_view yaml, std::string_view name) {
  const json::object document = TRY(model::parseYaml(yaml, name));
  ObjectReader reader(document, "");
  if (!TRY(reader.integer("version", 1, 1))) return wrong("version", "is required");
  Levels levels;
  levels.bounds = TRY(readBounds(reader));
  const json::object* all = TRY(reader.object("sandbox_levels"));
  if (all == nullptr || all->empty()) return wrong("sandbox_levels", "must be a map of levels");
  levels.lowering = TRY(readList<LoweringRule>(reader, "lowering", readLowering));
  levels.helpers = TRY(readList<Helpers>(reader, "helpers", readHelpers));
  auto safe = TRY(readList<SafeText>(reader, "safe_operations", readSafe));
  TRY(reader.finish());
  for (const auto& [level, value] : *all) {
    if (!value.is_object()) return wrong("sandbox_levels." + std::string(level), "must be a map");
    levels.levels.emplace(std::string(level), TRY(readLevel(value.get_object(), level)));
  }
  TRY(checkLowering(levels));
  TRY(addSafe(std::move(safe), levels));
  return levels;
}

std::vector<std::string> warningsOf(const Level& level) {
  if (!level.limits.requests_per_minute || level.network_access != "denied") return {};
  return {
      "level " + level.name +
      ": resource_limits.max_network_requests_per_minute has no effect, since network_access is "
      "denied"};
}

std::vector<std::string> warningsOf(const Levels& levels) {
  std::vector<std::string> warnings;
  for (const auto& [name, level] : levels.levels) {
    for (std::string& each : warningsOf(level))
      warnings.push_back(std::move(each));
  }
  return warnings;
}

}  // namespace cloister::policy
