// SPDX-License-Identifier: Apache-2.0
// The encoding of network plans. A plan has one encoding: the decoder encodes its result again, and
// refuses bytes that differ. So order, defaults and spelling need no rules of their own.
#include <algorithm>

#include "base/network.h"
#include "model/network.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr size_t kMaxText = 256;      // ids and names
constexpr size_t kMaxInternal = 256;  // networks of the operator
constexpr size_t kMaxDepth = 8;
constexpr int64_t kMaxGeneration = (int64_t{1} << 53) - 1;  // exact in JSON (RFC 8259 section 6)

json::object toJsonObject(const PlanRule& rule) {
  NetworkEntry entry = rule.entry;
  if (rule.anyone) entry.name = kAnyName;
  json::object object;
  if (rule.anyone) object["anyone"] = true;
  if (rule.budget != 0) object["budget"] = rule.budget;
  object["entry"] = model::toJsonObject(entry);
  if (rule.internal) object["internal"] = true;
  object["rule"] = rule.rule;
  return object;
}

json::array secretsOf(const NetworkPlan& plan) {
  json::array secrets;
  for (const PlanSecret& secret : plan.secrets)
    secrets.push_back(model::toJsonObject(secret));
  return secrets;
}

std::unexpected<Error> refused(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

Result<std::string> readText(ObjectReader& reader, std::string_view name, size_t least) {
  auto text = TRY(reader.text(name));
  if (!text || text->size() < least || text->size() > kMaxText) {
    return refused(reader.pathOf(name), "must be text of " + std::to_string(least) + " to " +
                                            std::to_string(kMaxText) + " bytes");
  }
  return *std::move(text);
}

Result<PlanRule> readRule(const json::value& value, const std::string& path) {
  const json::object* object = value.if_object();
  if (object == nullptr) return refused(path, "must be an object");
  ObjectReader reader(*object, path);
  PlanRule rule;
  const json::object* entry = TRY(reader.object("entry"));
  if (entry == nullptr) return refused(reader.pathOf("entry"), "is required");
  rule.entry = TRY(readNetworkEntry(*entry, reader.pathOf("entry"), true));
  rule.rule = TRY(readText(reader, "rule", 1));
  rule.anyone = TRY(reader.boolean("anyone")).value_or(false);
  rule.internal = TRY(reader.boolean("internal")).value_or(false);
  const auto budget = TRY(reader.integer("budget", 0, kMaxNetworkEntries));
  rule.budget = static_cast<uint32_t>(budget.value_or(0));
  TRY(reader.finish());
  if (rule.anyone != (rule.entry.name == kAnyName)) {
    return refused(reader.pathOf("anyone"), "does not agree with the entry's name");
  }
  return rule;
}

Result<> readRules(ObjectReader& reader, NetworkPlan& plan) {
  const json::array* rules = TRY(reader.array("rules"));
  if (rules == nullptr || rules->size() > kMaxNetworkEntries) {
    return refused(reader.pathOf("rules"),
                   "must be at most " + std::to_string(kMaxNetworkEntries) + " rules");
  }
  for (size_t i = 0; i < rules->size(); ++i)
    plan.rules.push_back(TRY(readRule((*rules)[i], "rules[" + std::to_string(i) + "]")));
  return {};
}

Result<> readInternal(ObjectReader& reader, NetworkPlan& plan) {
  const std::string field = reader.pathOf("internal_networks");
  const json::array* networks = TRY(reader.array("internal_networks"));
  if (networks == nullptr || networks->size() > kMaxInternal) {
    return refused(field, "must be at most " + std::to_string(kMaxInternal) + " networks");
  }
  for (const json::value& value : *networks) {
    const json::string* text = value.if_string();
    if (text == nullptr) return refused(field, "must be text");
    const auto network = base::Network::parse(std::string_view(*text));
    if (!network) return refused(field, network.error().message);
    plan.internal_networks.emplace_back(*text);
  }
  return {};
}

Result<> readSecrets(ObjectReader& reader, NetworkPlan& plan) {
  const json::array* secrets = TRY(reader.array("secrets"));
  if (secrets == nullptr) return {};
  const std::string field = reader.pathOf("secrets");
  if (secrets->size() > kMaxSecretUses) {
    return refused(field, "must be at most " + std::to_string(kMaxSecretUses));
  }
  for (const json::value& value : *secrets) {
    const json::object* object = value.if_object();
    if (object == nullptr) return refused(field, "must be objects");
    PlanSecret secret = TRY(readPlanSecret(*object));
    const bool twice =
        std::ranges::find(plan.secrets, secret.id, &PlanSecret::id) != plan.secrets.end();
    if (twice) return refused(field, "names an id twice");
    plan.secrets.push_back(std::move(secret));
  }
  return {};
}

Result<> readPolicy(ObjectReader& reader, NetworkPlan& plan) {
  plan.tier = TRY(readText(reader, "tier", 1));
  if (std::ranges::find(kNetworkTiers, plan.tier) == kNetworkTiers.end()) {
    return refused(reader.pathOf("tier"), "is unknown");
  }
  const auto on_denied = onDeniedFromName(TRY(readText(reader, "on_denied", 1)));
  if (!on_denied) return refused(reader.pathOf("on_denied"), "is unknown");
  plan.on_denied = *on_denied;
  const auto rate = TRY(reader.integer("requests_per_minute", 0, UINT32_MAX));
  plan.requests_per_minute = static_cast<uint32_t>(rate.value_or(0));
  return {};
}

Result<NetworkPlan> readPlan(const json::object& object) {
  ObjectReader reader(object, "");
  NetworkPlan plan;
  plan.permit = TRY(readText(reader, "permit", 1));
  const auto generation = TRY(reader.integer("generation", 1, kMaxGeneration));
  if (!generation) return refused("generation", "is required");
  plan.generation = static_cast<uint64_t>(*generation);
  plan.tenant = TRY(readText(reader, "tenant", 1));
  plan.agent = TRY(readText(reader, "agent", 0));
  plan.policy_id = TRY(readText(reader, "policy_id", 0));
  TRY(readPolicy(reader, plan));
  TRY(readRules(reader, plan));
  TRY(readInternal(reader, plan));
  TRY(readSecrets(reader, plan));
  TRY(reader.finish());
  return plan;
}

}  // namespace

std::string encodePlan(const NetworkPlan& plan) {
  json::array rules;
  for (const PlanRule& rule : plan.rules)
    rules.push_back(toJsonObject(rule));
  const auto& networks = plan.internal_networks;
  json::object object{{"agent", plan.agent},
                      {"generation", plan.generation},
                      {"internal_networks", json::array(networks.begin(), networks.end())},
                      {"on_denied", onDeniedName(plan.on_denied)},
                      {"permit", plan.permit},
                      {"policy_id", plan.policy_id},
                      {"requests_per_minute", plan.requests_per_minute},
                      {"rules", std::move(rules)}};
  if (!plan.secrets.empty()) object["secrets"] = secretsOf(plan);
  object["tenant"] = plan.tenant;
  object["tier"] = plan.tier;
  return base::toJson(object);
}

Result<NetworkPlan> decodePlan(std::string_view bytes) {
  constexpr std::string_view kDoing = "decoding a network plan";
  const auto value = base::parseJson(bytes, {.max_bytes = kMaxPlanBytes, .max_depth = kMaxDepth});
  if (!value) return std::unexpected(Error(value.error()).within(kDoing));
  if (!value->is_object()) return fail(Code::kInvalid, std::string(kDoing) + ": not an object");
  auto plan = readPlan(value->get_object());
  if (!plan) return std::unexpected(std::move(plan).error().within(kDoing));
  if (encodePlan(*plan) != bytes) {
    return fail(Code::kInvalid, std::string(kDoing) + ": not the canonical form");
  }
  return plan;
}

}  // namespace cloister::model
