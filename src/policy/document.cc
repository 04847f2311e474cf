// SPDX-License-Identifier: Apache-2.0
// Reading a policy document.
#include "policy/document.h"

#include <algorithm>
#include <set>

#include "base/crypto.h"
#include "base/glob.h"
#include "model/roles.h"
#include "model/yaml.h"
#include "policy/conditions.h"
#include "policy/document_network.h"
#include "policy/document_risk.h"

namespace cloister::policy {
namespace {

using base::ObjectReader;
using model::kTierNames;
static_assert(kTierNames.size() == kTiers);

constexpr int64_t kMaxSeconds = int64_t{30} * 24 * 3600;
constexpr int64_t kMaxQuorum = 10;
constexpr size_t kMaxRules = 500;
constexpr size_t kMaxName = 128;
constexpr size_t kIdDigits = 16;
constexpr std::array<std::string_view, 3> kRuntimes = {"process", "gvisor", "microvm"};
constexpr std::array<std::string_view, 3> kEffects = {"deny", "allow", "approve"};

std::unexpected<Error> wrong(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// A list that must not be empty if present.
Result<std::vector<std::string>> readList(ObjectReader& reader, const base::json::object& object,
                                          std::string_view name) {
  std::vector<std::string> values = TRY(model::textList(reader, name));
  const base::json::value* list = object.if_contains(name);
  if (list != nullptr && values.empty()) {
    return wrong(reader.pathOf(name), "is empty; leave it out to match everything");
  }
  return values;
}

// Names with * for any characters.
Result<std::vector<std::string>> readPatterns(ObjectReader& reader,
                                              const base::json::object& object,
                                              std::string_view name) {
  std::vector<std::string> values = TRY(readList(reader, object, name));
  for (const std::string& value : values) {
    const std::string why = whyNoPattern(value);
    if (!why.empty()) return wrong(reader.pathOf(name), why);
  }
  return values;
}

Result<> readListConditions(ObjectReader& reader, const base::json::object& object, int format,
                            Conditions& match) {
  for (const ListCondition& condition : listConditions()) {
    if (format == 1 && !condition.in_version_1) continue;
    match.*condition.list = TRY(readPatterns(reader, object, condition.key));
    const auto isKnown = [&](const std::string& glob) {
      return condition.known.empty() || std::ranges::any_of(condition.known, [&](auto name) {
               return base::globMatches(glob, name);
             });
    };
    for (const std::string& value : match.*condition.list) {
      if (isKnown(value)) continue;
      return wrong(reader.pathOf(condition.key),
                   "\"" + value + "\" is none of " + listed(condition.known));
    }
  }
  return {};
}

// "none", "any", or {any_of: [...]} or {only: [...]}.
Result<> readDependencies(ObjectReader& reader, Conditions& match) {
  const base::json::value* value = reader.any("dependencies");
  const std::string path = reader.pathOf("dependencies");
  if (value == nullptr) return {};
  if (value->is_string() && (value->get_string() == "none" || value->get_string() == "any")) {
    match.has_dependencies = value->get_string() == "any";
    return {};
  }
  if (!value->is_object()) return wrong(path, "must be none, any, or a map of any_of or only");
  ObjectReader inner(value->get_object(), path);
  match.any_dependency = TRY(readPatterns(inner, value->get_object(), "any_of"));
  match.only_dependencies = TRY(readPatterns(inner, value->get_object(), "only"));
  TRY(inner.finish());
  if (match.any_dependency.empty() == match.only_dependencies.empty()) {
    return wrong(path, "give either any_of or only");
  }
  return {};
}

Result<Conditions> readMatch(const base::json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  Conditions match;
  TRY(readListConditions(reader, object, 2, match));
  TRY(readDependencies(reader, match));
  match.in_session = TRY(reader.boolean("session"));
  if (const base::json::object* risk = TRY(reader.object("risk"))) {
    ObjectReader inner(*risk, reader.pathOf("risk"));
    const auto least = TRY(inner.integer("at_least", 1, kMaxScore));
    if (!least) return wrong(inner.pathOf("at_least"), "is required");
    match.score_at_least = static_cast<int>(*least);
    TRY(inner.finish());
  }
  TRY(reader.finish());
  return match;
}

Result<> readMax(ObjectReader& reader, const model::Limits& max, Rule& rule) {
  rule.max = max;
  const base::json::object* object = TRY(reader.object("max"));
  if (object == nullptr) return {};
  ObjectReader inner(*object, reader.pathOf("max"));
  model::LimitSet named;
  TRY(model::readLimits(inner, max, rule.max, &named));
  rule.bounds_time = named.test(model::limitIndex(model::limit_name::kWall));
  return inner.finish();
}

// Only a permission has a runtime and an image; only a denial has advice. Mixing both is a mistake
// in a security rule, and therefore an error.
Result<> readEffectOfVersion1(ObjectReader& reader, const model::Limits& max, Rule& rule) {
  const auto allow = TRY(reader.boolean("allow"));
  if (!allow) return wrong(reader.pathOf("allow"), "is required");
  rule.effect = *allow ? Effect::kAllow : Effect::kDeny;
  if (!*allow) {
    rule.remedy = TRY(reader.text("remedy")).value_or("");
    return {};
  }
  rule.tier = Tier::kAuto;
  rule.runtime = TRY(model::requiredText(reader, "runtime"));
  rule.image = TRY(model::requiredText(reader, "image"));
  TRY(readMax(reader, max, rule));
  return {};
}

Result<std::string> readRuntime(ObjectReader& reader, std::string fallback) {
  auto runtime = TRY(reader.text("runtime"));
  if (runtime && !runtimeStrength(*runtime)) {
    return wrong(reader.pathOf("runtime"), "must be one of " + listed(kRuntimes));
  }
  return runtime.value_or(std::move(fallback));
}

Result<std::optional<Tier>> readTier(ObjectReader& reader) {
  const auto name = TRY(reader.text("tier"));
  if (!name) return std::nullopt;
  const auto tier = tierFromName(*name);
  if (!tier) return wrong(reader.pathOf("tier"), "must be one of " + listed(kTierNames));
  return tier;
}

Result<> readGrant(ObjectReader& reader, const base::json::object& object, const Policy& policy,
                   const model::Limits& max, Rule& rule) {
  rule.tier = TRY(readTier(reader));
  rule.runtime = TRY(readRuntime(reader, ""));
  if (rule.tier && !rule.runtime.empty()) {
    const std::string& needed = policy.tiers[static_cast<size_t>(*rule.tier)].runtime;
    if (*runtimeStrength(rule.runtime) < *runtimeStrength(needed)) {
      return wrong(reader.pathOf("runtime"), "is weaker than \"" + needed + "\", which tier " +
                                                 std::string(tierName(*rule.tier)) + " needs");
    }
  }
  if (auto image = TRY(reader.text("image"))) rule.image = *std::move(image);
  if (!model::isImageName(rule.image)) return wrong(reader.pathOf("image"), "is no image's name");
  rule.images = TRY(readPatterns(reader, object, "images"));
  TRY(readMax(reader, max, rule));
  TRY(readRuleNetwork(reader, rule));
  rule.operations = TRY(readList(reader, object, "operations"));
  for (const std::string& operation : rule.operations) {
    if (std::ranges::find(kOperations, operation) != kOperations.end()) continue;
    return wrong(reader.pathOf("operations"),
                 "\"" + operation + "\" is none of " + listed(kOperations));
  }
  if (rule.effect != Effect::kApprove) return {};  // then `approve` is unknown
  if (const base::json::object* approve = TRY(reader.object("approve"))) {
    rule.approval = TRY(readApproval(*approve, reader.pathOf("approve")));
  }
  return {};
}

Result<> readEffect(ObjectReader& reader, const base::json::object& object, const Policy& policy,
                    const model::Limits& max, Rule& rule) {
  const std::string name = TRY(model::requiredText(reader, "effect"));
  const auto* effect = std::ranges::find(kEffects, name);
  if (effect == kEffects.end()) {
    return wrong(reader.pathOf("effect"), "must be one of " + listed(kEffects));
  }
  rule.effect = static_cast<Effect>(effect - kEffects.begin());
  if (rule.effect != Effect::kDeny) return readGrant(reader, object, policy, max, rule);
  rule.remedy = TRY(reader.text("remedy")).value_or("");
  return {};
}

Result<Rule> readRule(const base::json::object& object, const std::string& path,
                      const Policy& policy, const model::Limits& max) {
  ObjectReader reader(object, path);
  Rule rule;
  rule.canonical = base::toJson(object);
  rule.name = TRY(model::requiredText(reader, "name"));
  if (rule.name.size() > kMaxName) return wrong(reader.pathOf("name"), "is longer than 128 bytes");
  rule.why = TRY(model::requiredText(reader, "why"));
  if (policy.format == 1) {
    TRY(readListConditions(reader, object, 1, rule.match));
    TRY(readEffectOfVersion1(reader, max, rule));
  } else {
    if (const base::json::object* match = TRY(reader.object("match"))) {
      rule.match = TRY(readMatch(*match, reader.pathOf("match")));
    }
    TRY(readEffect(reader, object, policy, max, rule));
  }
  TRY(reader.finish());
  return rule;
}

std::array<TierSetting, kTiers> usualTiers() {
  return {{{.runtime = "process", .approve = {}, .from_score = {}},
           {.runtime = "gvisor", .approve = {}, .from_score = {}},
           {.runtime = "gvisor", .approve = Approval{}, .from_score = {}},
           {.runtime = "microvm", .approve = Approval{}, .from_score = {}}}};
}

Result<> readTierSetting(const base::json::object& object, const std::string& path,
                         TierSetting& tier) {
  ObjectReader reader(object, path);
  tier.runtime = TRY(readRuntime(reader, tier.runtime));
  if (const auto score = TRY(reader.integer("from_score", 1, kMaxScore))) {
    tier.from_score = static_cast<int>(*score);
  }
  if (const base::json::object* approve = TRY(reader.object("approve"))) {
    tier.approve = TRY(readApproval(*approve, reader.pathOf("approve")));
  }
  return reader.finish();
}

// A higher tier is never a weaker wall, nor for a lower score.
Result<> readTiers(ObjectReader& document, Policy& policy) {
  const base::json::object* object = TRY(document.object("tiers"));
  if (object == nullptr) return {};
  ObjectReader reader(*object, "tiers");
  int strength = 0;
  int score = 0;
  for (size_t i = 0; i < kTiers; ++i) {
    TierSetting& tier = policy.tiers[i];
    const std::string path = reader.pathOf(kTierNames[i]);
    if (const base::json::object* setting = TRY(reader.object(kTierNames[i]))) {
      TRY(readTierSetting(*setting, path, tier));
    }
    const int own = *runtimeStrength(tier.runtime);
    if (own < strength) return wrong(path + ".runtime", "is weaker than that of the tier before");
    strength = own;
    if (!tier.from_score) continue;
    if (i == 0) return wrong(path + ".from_score", "the first tier has every score there is");
    if (*tier.from_score <= score) {
      return wrong(path + ".from_score", "must be more than that of the tier before");
    }
    score = *tier.from_score;
  }
  return reader.finish();
}

Result<> readSettings(ObjectReader& reader, const base::json::object& document, Policy& policy) {
  TRY(readTiers(reader, policy));
  if (const base::json::object* risk = TRY(reader.object("risk"))) {
    policy.risk = TRY(readRiskWeights(*risk, "risk"));
  }
  base::json::object settings;
  for (const std::string_view name : {"risk", "tiers"}) {
    if (const base::json::value* value = document.if_contains(name)) settings[name] = *value;
  }
  policy.settings = base::toJson(settings);
  return {};
}

// An empty "match:" would match everything, so refuse empty members.
Result<> refuseEmpty(const base::json::value& value, const std::string& path) {
  if (value.is_null()) return wrong(path, "is empty; leave it out, or say what is meant");
  if (const base::json::object* object = value.if_object()) {
    for (const auto& [name, member] : *object)
      TRY(refuseEmpty(member, (path.empty() ? "" : path + ".") + std::string(name)));
  }
  if (const base::json::array* array = value.if_array()) {
    for (size_t i = 0; i < array->size(); ++i)
      TRY(refuseEmpty((*array)[i], path + "[" + std::to_string(i) + "]"));
  }
  return {};
}

Result<Policy> readDocument(const base::json::object& document, const model::Limits& max) {
  ObjectReader reader(document, "");
  Policy policy;
  policy.tiers = usualTiers();
  const auto format = TRY(reader.integer("version", 1, 2));
  if (!format) return wrong("version", "is required; it is 2");
  policy.format = static_cast<int>(*format);
  if (policy.format > 1) {
    for (const auto& [key, value] : document)
      TRY(refuseEmpty(value, std::string(key)));
    TRY(readSettings(reader, document, policy));
  }
  const base::json::array* items = TRY(reader.array("rules"));
  if (items == nullptr || items->empty()) return wrong("rules", "must be a list of rules");
  if (items->size() > kMaxRules) return wrong("rules", "more than 500 rules");
  TRY(reader.finish());
  std::set<std::string> names;
  for (const base::json::value& item : *items) {
    const std::string path = "rules[" + std::to_string(policy.rules.size()) + "]";
    if (!item.is_object()) return wrong(path, "must be a map");
    policy.rules.push_back(TRY(readRule(item.get_object(), path, policy, max)));
    if (!names.insert(policy.rules.back().name).second)
      return wrong(path + ".name", "is given twice");
  }
  return policy;
}

}  // namespace

Result<Approval> readApproval(const base::json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  Approval approval;
  if (auto roles = TRY(readList(reader, object, "roles")); !roles.empty()) {
    approval.roles = std::move(roles);
  }
  for (const std::string& role : approval.roles) {
    if (!model::roleFromName(role)) {
      return wrong(reader.pathOf("roles"), "\"" + role + "\" is no role");
    }
  }
  approval.quorum = static_cast<uint32_t>(TRY(reader.integer("quorum", 1, kMaxQuorum)).value_or(1));
  approval.ttl_seconds =
      TRY(reader.integer("ttl_seconds", 1, kMaxSeconds)).value_or(approval.ttl_seconds);
  approval.fallback = TRY(reader.text("fallback")).value_or(approval.fallback);
  if (approval.fallback != "deny") return wrong(reader.pathOf("fallback"), "must be deny");
  TRY(reader.finish());
  return approval;
}

std::string_view tierName(Tier tier) {
  return kTierNames[static_cast<size_t>(tier)];
}

std::optional<Tier> tierFromName(std::string_view name) {
  const auto* found = std::ranges::find(kTierNames, name);
  if (found == kTierNames.end()) return std::nullopt;
  return static_cast<Tier>(found - kTierNames.begin());
}

std::optional<int> runtimeStrength(std::string_view runtime) {
  const auto* found = std::ranges::find(kRuntimes, runtime);
  if (found == kRuntimes.end()) return std::nullopt;
  return static_cast<int>(found - kRuntimes.begin());
}

std::string_view effectName(Effect effect) {
  return kEffects[static_cast<size_t>(effect)];
}

Result<Policy> parsePolicy(std::string_view yaml, std::string_view name, const model::Limits& max) {
  model::YamlLines lines;
  const base::json::object document = TRY(model::parseYaml(yaml, name, &lines));
  auto policy = readDocument(document, max);
  if (!policy) {
    Error error = std::move(policy).error();
    const int line = model::lineOf(lines, error.field);
    const std::string where = line == 0 ? "" : ": line " + std::to_string(line);
    return std::unexpected(std::move(error).within(std::string(name) + where));
  }
  policy->name = name;
  policy->sha256 = base::sha256Hex(yaml);
  setVersion(*policy, 0);
  return policy;
}

Policy brokenPolicy(std::string_view name, std::string why) {
  Policy policy;
  policy.name = name;
  policy.id = std::string(name) + "@broken";
  policy.broken = std::move(why);
  policy.tiers = usualTiers();
  return policy;
}

void setVersion(Policy& policy, int64_t version) {
  policy.version = version;
  const std::string which = version == 0 ? "" : "v" + std::to_string(version) + ".";
  policy.id = policy.name + "@" + which + "sha256:" + policy.sha256.substr(0, kIdDigits);
}

}  // namespace cloister::policy
