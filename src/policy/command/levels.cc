// SPDX-License-Identifier: Apache-2.0
#include "policy/command/levels.h"

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
  return PathRule{.path = TRY(model::requiredText(reader, "path")),
                  .why = TRY(model::requiredText(reader, "why"))};
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
  level.file_operations = TRY(model::textList(reader, "allowed_file_operations"));
  level.network_access = TRY(reader.text("network_access")).value_or("denied");
  level.doubt = TRY(readOutcome(reader, "doubt", Outcome::kEscalate));
  level.project_code = TRY(readOutcome(reader, "project_code", Outcome::kEscalate));
  return reader.finish();
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
  if (const auto* limits = TRY(reader.object("resource_limits"))) level.resource_limits = *limits;
  if (const auto* policy = TRY(reader.object("escalation_policy")))
    level.escalation_policy = *policy;
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
  TRY(reader.finish());
  for (const auto& [level, value] : *all) {
    if (!value.is_object()) return wrong("sandbox_levels." + std::string(level), "must be a map");
    levels.levels.emplace(std::string(level), TRY(readLevel(value.get_object(), level)));
  }
  return levels;
}

}  // namespace cloister::policy
