// SPDX-License-Identifier: Apache-2.0
#include "policy/answer.h"

#include <algorithm>
#include <array>
#include <climits>

#include "model/yaml.h"
#include "policy/conditions.h"
#include "policy/document_network.h"

namespace cloister::policy {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr int64_t kVersion = 1;
constexpr size_t kMaxName = 128;
constexpr size_t kMaxText = 2000;
constexpr std::array<std::string_view, 3> kOutcomes = {"deny", "allow", "approve"};  // as Effect

std::unexpected<Error> wrong(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

json::array texts(const std::vector<std::string>& values) {
  return json::array(values.begin(), values.end());
}

json::object principalJson(const model::Principal& who) {
  json::array roles;
  for (const std::string_view role : model::names(who.roles))
    roles.push_back(json::string(role));
  return {{"tenant", who.tenant},
          {"app", who.app},
          {"agent", who.agent},
          {"user", who.user},
          {"roles", std::move(roles)}};
}

json::object requestJson(const Question& question) {
  const model::RunRequest& request = question.request;
  json::array dependencies;
  for (const std::string& text : request.deps)
    dependencies.push_back(json::object{{"name", dependencyName(text)}, {"text", text}});
  json::array destinations;
  for (const model::NetworkEntry& entry : request.network.allow)
    destinations.push_back(model::toJsonObject(entry));
  const auto tool = request.metadata.find("tool_type");
  model::Limits limits = request.limits;
  model::settle(limits);
  return {{"language", question.language},
          {"network", request.network.tier},
          {"destinations", std::move(destinations)},
          {"tool_type",
           tool == request.metadata.end() ? json::value(nullptr) : json::value(tool->second)},
          {"dependencies", std::move(dependencies)},
          {"tier", request.tier},
          {"runtime", request.runtime},
          {"image", request.image},
          {"limits", model::limitsObject(limits)}};
}

// Text for people and records: bounded, and no control characters.
Result<std::optional<std::string>> readText(ObjectReader& reader, std::string_view name,
                                            size_t most) {
  auto text = TRY(reader.text(name));
  const auto control = [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; };
  if (text && (text->empty() || text->size() > most || std::ranges::any_of(*text, control))) {
    return wrong(reader.pathOf(name), "must be text of at most " + std::to_string(most) +
                                          " bytes without control characters");
  }
  return text;
}

Result<std::string> requiredName(ObjectReader& reader, std::string_view name,
                                 const std::string& known) {
  auto text = TRY(readText(reader, name, kMaxName));
  if (!text) return wrong(reader.pathOf(name), "is required: " + known);
  return *std::move(text);
}

Result<Effect> readOutcome(ObjectReader& reader) {
  const std::string known = "allow, deny or approve";
  const std::string name = TRY(requiredName(reader, "outcome", known));
  const auto* found = std::ranges::find(kOutcomes, name);
  if (found == kOutcomes.end()) return wrong("outcome", "must be " + known);
  return static_cast<Effect>(found - kOutcomes.begin());
}

Result<> readTier(ObjectReader& reader, const Question& question, Rule& rule) {
  const std::string known = "Auto, Assisted, HumanApprove or ManualOnly";
  rule.tier = tierFromName(TRY(requiredName(reader, "tier", known)));
  if (!rule.tier) return wrong("tier", "must be " + known);
  const Tier asked = tierFromName(question.request.tier).value_or(Tier::kAuto);
  if (*rule.tier < asked) return wrong("tier", "is below the tier that was asked for");
  return {};
}

Result<> readOperations(ObjectReader& reader, Rule& rule) {
  rule.operations = TRY(model::textList(reader, "operations"));
  if (reader.any("operations") != nullptr && rule.operations.empty()) {
    return wrong("operations", "is empty; leave it out where all are allowed");
  }
  for (const std::string& operation : rule.operations) {
    if (std::ranges::find(kOperations, operation) == kOperations.end()) {
      return wrong("operations", "\"" + operation + "\" is no operation");
    }
  }
  return {};
}

// Reads the conditions of a permission: tier, runtime, image and limits.
Result<> readGrant(ObjectReader& reader, const Question& question, const model::Limits& most,
                   Rule& rule) {
  TRY(readTier(reader, question, rule));
  rule.runtime = TRY(requiredName(reader, "runtime", "process, gvisor or microvm"));
  if (!runtimeStrength(rule.runtime)) return wrong("runtime", "must be process, gvisor or microvm");
  rule.image = TRY(readText(reader, "image", kMaxName)).value_or(rule.image);
  if (!model::isImageName(rule.image)) return wrong("image", "is no image's name");
  rule.images = TRY(model::textList(reader, "images"));
  const auto network = TRY(reader.text("network"));
  if (network && *network != question.request.network.tier) {
    return wrong("network", "is not the tier that was asked for");
  }
  rule.match.network_tiers = TRY(model::textList(reader, "network_tiers"));
  TRY(readDestinations(reader, "destinations", rule));
  if (const json::value* secrets = reader.any("secrets")) {
    rule.secrets = TRY(model::readSecretGrants(*secrets, "secrets"));
  }
  rule.max = most;
  if (const json::object* limits = TRY(reader.object("limits"))) {
    ObjectReader inner(*limits, "limits");
    model::LimitSet named;
    TRY(model::readLimits(inner, most, rule.max, &named));
    rule.bounds_time = named.test(model::limitIndex(model::limit_name::kWall));
    TRY(inner.finish());
  }
  TRY(readOperations(reader, rule));
  if (rule.effect != Effect::kApprove) return {};  // then `approval` is unknown
  const json::object* approval = TRY(reader.object("approval"));
  if (approval == nullptr) return wrong("approval", "is required with approve");
  rule.approval = TRY(readApproval(*approval, "approval"));
  return {};
}

Result<std::optional<int>> readScore(ObjectReader& reader) {
  const json::object* risk = TRY(reader.object("risk"));
  if (risk == nullptr) return std::nullopt;
  ObjectReader inner(*risk, "risk");
  const auto score = TRY(inner.integer("score", 0, INT_MAX));
  TRY(inner.finish());
  if (!score) return wrong("risk.score", "is required");
  return static_cast<int>(*score);
}

Result<Rule> readRule(ObjectReader& reader, const Question& question, const model::Limits& most) {
  Rule rule;
  rule.effect = TRY(readOutcome(reader));
  rule.name = TRY(readText(reader, "rule", kMaxName)).value_or("");
  const auto why = TRY(readText(reader, "reason", kMaxText));
  if (!why) return wrong("reason", "is required: every decision says why");
  rule.why = *why;
  if (rule.effect == Effect::kDeny) {
    rule.remedy = TRY(readText(reader, "remedy", kMaxText)).value_or("");
    return rule;
  }
  if (rule.name.empty()) return wrong("rule", "is required with " + std::string(kOutcomes[1]));
  TRY(readGrant(reader, question, most, rule));
  return rule;
}

}  // namespace

namespace {

// Leaves out the host's image, which each node has.
json::array imagesJson(const Question& question) {
  json::array images;
  if (question.images == nullptr) return images;
  for (const model::OfferedImage& image : *question.images)
    images.push_back(json::object{{"name", image.name}, {"digest", image.digest}});
  return images;
}

}  // namespace

json::object questionJson(const Question& question, const model::Limits& most) {
  json::object risk{{"commands", json::array()}, {"variables", json::array()}};
  if (question.risk_facts != nullptr) {
    risk["commands"] = texts(question.risk_facts->command_risks);
    risk["variables"] = texts(question.risk_facts->variables);
  }
  const bool known = question.runtimes != nullptr && !question.runtimes->empty();
  return {{"version", kVersion},
          {"operation", json::string(question.operation)},
          {"session", !question.session_id.empty()},
          {"principal", principalJson(question.principal)},
          {"request", requestJson(question)},
          {"risk", std::move(risk)},
          {"runtimes", known ? texts(*question.runtimes) : json::array{"process"}},
          {"images", imagesJson(question)},
          {"ceiling", model::limitsObject(most)}};
}

Result<Policy> readAnswer(const json::object& answer, const Question& question,
                          const model::Limits& most, std::string_view engine) {
  ObjectReader reader(answer, "");
  if (!TRY(reader.integer("version", kVersion, kVersion))) {
    return wrong("version", "is required; it is 1");
  }
  Policy policy;
  policy.name = engine;
  policy.format = 2;
  policy.rules.push_back(TRY(readRule(reader, question, most)));
  policy.score = TRY(readScore(reader)).value_or(0);
  const auto revision = TRY(readText(reader, "revision", kMaxName));
  policy.id = policy.name + "@" + revision.value_or("unversioned");
  TRY(reader.finish());
  // The answer's own tier counts, whatever a table of tiers would give.
  for (TierSetting& tier : policy.tiers)
    tier.runtime = policy.rules[0].runtime;
  return policy;
}

}  // namespace cloister::policy
