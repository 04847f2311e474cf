// SPDX-License-Identifier: Apache-2.0
// Reading a policy document.
#include <set>

#include "base/crypto.h"
#include "model/yaml.h"
#include "policy/decide.h"

namespace cloister::policy {
namespace {

using base::ObjectReader;

std::unexpected<Error> wrong(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<model::Limits> readMax(ObjectReader& reader, const model::Limits& max) {
  model::Limits limits = max;
  if (const base::json::object* object = TRY(reader.object("max"))) {
    ObjectReader inner(*object, reader.pathOf("max"));
    TRY(model::readLimits(inner, max, limits));
    TRY(inner.finish());
  }
  return limits;
}

// `approve: {roles, quorum, ttl_seconds, fallback}` of an allow.
Result<> readApproval(ObjectReader& reader, Rule& rule) {
  constexpr int64_t kMostApprovers = 10;
  constexpr int64_t kLongest = int64_t{30} * 86'400;
  const base::json::object* object = TRY(reader.object("approve"));
  if (object == nullptr) return {};
  ObjectReader inner(*object, reader.pathOf("approve"));
  NeedsApproval wanted{.rule = rule.name, .reason = rule.why, .approver_roles = {}};
  wanted.approver_roles = TRY(model::textList(inner, "roles"));
  if (wanted.approver_roles.empty()) wanted.approver_roles = {"approver"};
  for (const std::string& role : wanted.approver_roles) {
    if (!model::roleFromName(role)) return wrong(inner.pathOf("roles"), "has an unknown role");
  }
  const auto quorum = TRY(inner.integer("quorum", 1, kMostApprovers));
  if (quorum) wanted.quorum = static_cast<uint32_t>(*quorum);
  wanted.ttl_seconds = TRY(inner.integer("ttl_seconds", 1, kLongest)).value_or(wanted.ttl_seconds);
  wanted.fallback = TRY(inner.text("fallback")).value_or("deny");
  if (wanted.fallback != "deny") return wrong(inner.pathOf("fallback"), "must be deny");
  TRY(inner.finish());
  rule.approve = std::move(wanted);
  return {};
}

// A grant has a runtime and an image; a denial has advice. Mixing them is a mistake in a rule that
// somebody relies on, so it is one here too.
Result<> readEffect(ObjectReader& reader, const model::Limits& max, Rule& rule) {
  const auto allow = TRY(reader.boolean("allow"));
  if (!allow) return wrong(reader.pathOf("allow"), "is required");
  rule.allow = *allow;
  if (!rule.allow) {
    rule.remedy = TRY(reader.text("remedy")).value_or("");
    return {};
  }
  rule.runtime = TRY(model::requiredText(reader, "runtime"));
  rule.image = TRY(model::requiredText(reader, "image"));
  rule.max = TRY(readMax(reader, max));
  return readApproval(reader, rule);
}

Result<Rule> readRule(const base::json::object& object, const std::string& path,
                      const model::Limits& max) {
  ObjectReader reader(object, path);
  Rule rule;
  rule.name = TRY(model::requiredText(reader, "name"));
  rule.why = TRY(model::requiredText(reader, "why"));
  rule.tenants = TRY(model::textList(reader, "tenants"));
  rule.languages = TRY(model::textList(reader, "languages"));
  rule.network_tiers = TRY(model::textList(reader, "network_tiers"));
  for (const std::string_view name : {"tenants", "languages", "network_tiers"}) {
    const base::json::value* list = object.if_contains(name);
    if (list != nullptr && (!list->is_array() || list->get_array().empty())) {
      return wrong(reader.pathOf(name), "is empty; leave it out to match everything");
    }
  }
  TRY(readEffect(reader, max, rule));
  TRY(reader.finish());
  return rule;
}

Result<std::vector<Rule>> readRules(const base::json::object& document, const model::Limits& max) {
  ObjectReader reader(document, "");
  if (!TRY(reader.integer("version", 1, 1))) return wrong("version", "is required");
  const base::json::array* items = TRY(reader.array("rules"));
  if (items == nullptr || items->empty()) return wrong("rules", "must be a list of rules");
  TRY(reader.finish());
  std::vector<Rule> rules;
  std::set<std::string> names;
  for (const base::json::value& item : *items) {
    const std::string path = "rules[" + std::to_string(rules.size()) + "]";
    if (!item.is_object()) return wrong(path, "must be a map");
    rules.push_back(TRY(readRule(item.get_object(), path, max)));
    if (!names.insert(rules.back().name).second) return wrong(path + ".name", "is given twice");
  }
  return rules;
}

}  // namespace

Result<Policy> parsePolicy(std::string_view yaml, std::string_view name, const model::Limits& max) {
  const base::json::object document = TRY(model::parseYaml(yaml, name));
  auto rules = readRules(document, max);
  if (!rules) return std::unexpected(std::move(rules).error().within(name));
  constexpr size_t kDigits = 16;
  return Policy{std::string(name) + "@sha256:" + base::sha256Hex(yaml).substr(0, kDigits),
                *std::move(rules)};
}

}  // namespace cloister::policy
