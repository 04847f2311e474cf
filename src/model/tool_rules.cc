// SPDX-License-Identifier: Apache-2.0
#include "model/tool_rules.h"

#include <algorithm>
#include <array>

#include "model/capability.h"
#include "model/tool.h"
#include "model/yaml.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr std::array<std::string_view, 3> kRisks = {"low", "medium", "high"};
// Limits of a session's program; all others are its sandbox's.
constexpr std::array<std::string_view, 3> kOfProgram = {limit_name::kWall, limit_name::kCpuTime,
                                                        limit_name::kOutput};

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

Result<NetworkRequest> readToolNetwork(base::ObjectReader& reader) {
  const json::value* value = reader.any("network");
  const std::string path = reader.pathOf("network");
  if (value == nullptr) return NetworkRequest{};
  if (const json::object* object = value->if_object()) return readNetworkRequest(*object, path);
  if (value->is_string() && has(kNetworkTiers, std::string_view(value->get_string()))) {
    NetworkRequest request;
    request.tier = value->get_string();
    return request;
  }
  return invalid(path, "must be one of " + listed(kNetworkTiers) + ", or a map of tier and allow");
}

// A tool in a session uses the session's network, which must be no more and no less.
Result<> holdToNetwork(const std::string& id, const ToolRules& rules, ToolPlace place,
                       RunRequest& request) {
  if (place == ToolPlace::kOwnSandbox) {
    request.network = rules.network;
    return {};
  }
  if (place == ToolPlace::kFresh && rules.network.tier != "none") {
    return invalid("session_id", id + " has network tier \"" + rules.network.tier +
                                     "\", and a fresh sandbox in a session has no network; call it "
                                     "with \"sandbox\": \"session\", or without a session");
  }
  if (request.network.tier != rules.network.tier) {
    return invalid("session_id", id + " has network tier \"" + rules.network.tier +
                                     "\", and the session \"" + request.network.tier +
                                     "\"; make a session with the tool's, or call it without one");
  }
  if (rules.network.allow.empty() || rules.network == request.network) return {};
  return invalid("session_id", id +
                                   " has a network_policy other than the session's; make a session "
                                   "with the tool's, or call it without one");
}

Result<> readToolLimits(base::ObjectReader& reader, ToolRules& rules) {
  const json::object* object = TRY(reader.object("limits"));
  if (object == nullptr) return {};
  base::ObjectReader inner(*object, reader.pathOf("limits"));
  rules.most = defaultBounds().max;
  TRY(readLimits(inner, defaultBounds().max, rules.most, &rules.bounded));
  return inner.finish();
}

// Applies the limits of `rules` to a request.
Result<> holdToLimits(const std::string& id, const ToolRules& rules, ToolPlace place,
                      RunRequest& request) {
  for (size_t i = 0; i < kLimitCount; ++i) {
    const LimitKind& kind = limitKinds()[i];
    const bool counts = place == ToolPlace::kOwnSandbox || has(kOfProgram, kind.name) ||
                        (place == ToolPlace::kFresh && has(kFreshLimits, kind.name));
    if (!counts || !rules.bounded.test(i)) continue;
    const uint64_t most = kind.get(rules.most);
    const bool over = kind.get(request.limits) > most;
    if (over && request.named_limits.test(i)) {
      const std::string name(kind.name);
      return invalid(name, "is more than " + id + " allows; ask for at most " +
                               json::serialize(limitsObject(rules.most).at(name)) +
                               ", or leave it out");
    }
    if (over) kind.set(request.limits, most);
  }
  if (request.named_limits.test(limitIndex(limit_name::kCpuTime))) return {};
  Limits derived = request.limits;
  derived.cpu_time = {};
  settle(derived);
  request.limits.cpu_time = std::min(request.limits.cpu_time, derived.cpu_time);
  return {};
}

}  // namespace

Result<RiskTiers> readRiskTiers(base::ObjectReader& reader) {
  RiskTiers tiers = {{"low", "Auto"}, {"medium", "Assisted"}, {"high", "HumanApprove"}};
  const json::object* object = TRY(reader.object("tiers"));
  if (object == nullptr) return tiers;
  base::ObjectReader inner(*object, "tiers");
  for (auto& [risk, tier] : tiers) {
    const auto named = TRY(inner.text(risk));
    if (!named) continue;
    if (!has(kTierNames, *named))
      return invalid(inner.pathOf(risk), "must be one of " + listed(kTierNames));
    tier = *named;
  }
  TRY(inner.finish());
  return tiers;
}

Result<ToolRules> readToolRules(base::ObjectReader& reader, const RiskTiers& tiers) {
  ToolRules rules;
  auto capabilities = TRY(readCapabilities(reader, "capabilities"));
  if (!capabilities) {
    return invalid(reader.pathOf("capabilities"),
                   "is required: what the tool needs, of " + listed(kCapabilities));
  }
  rules.capabilities = *std::move(capabilities);
  rules.network = TRY(readToolNetwork(reader));
  if (rules.network.tier != "none" && !has(rules.capabilities, capability::kNetwork)) {
    return invalid(reader.pathOf("capabilities"),
                   "must have network where the tool's network is not none");
  }
  TRY(readToolLimits(reader, rules));
  rules.risk = TRY(requiredText(reader, "risk"));
  if (!has(kRisks, rules.risk))
    return invalid(reader.pathOf("risk"), "must be low, medium or high");
  rules.tier = tiers.find(rules.risk)->second;
  return rules;
}

Result<> holdToRules(const std::string& id, const ToolRules& rules, ToolPlace place,
                     RunRequest& request) {
  TRY(holdToNetwork(id, rules, place, request));
  TRY(holdToLimits(id, rules, place, request));
  request.metadata[std::string(kNeedsMember)] = capabilityNames(rules.capabilities);
  request.metadata[std::string(kRiskMember)] = rules.risk;
  const auto rank = [](std::string_view tier) { return std::ranges::find(kTierNames, tier); };
  const std::string_view asked = request.tier.empty() ? kTierNames[0] : request.tier;
  if (rank(rules.tier) <= rank(asked)) return {};
  request.tier = rules.tier;
  request.metadata[std::string(kRiskTierMember)] = rules.tier;
  return {};
}

std::vector<std::string> capabilitiesNeeded(const RunRequest& request) {
  std::vector<std::string> needs;
  const auto of_tool = request.metadata.find(std::string(kNeedsMember));
  if (of_tool == request.metadata.end()) {
    needs.emplace_back(capability::kCommand);
    if (!request.files.empty()) needs.emplace_back(capability::kFileWrite);
  } else {
    constexpr std::string_view kBetween = ", ";
    std::string_view left = of_tool->second;
    while (!left.empty()) {
      const size_t end = std::min(left.find(kBetween), left.size());
      needs.emplace_back(left.substr(0, end));
      left.remove_prefix(std::min(end + kBetween.size(), left.size()));
    }
  }
  const bool named = has(needs, capability::kNetwork);
  if (request.network.tier != "none" && !named) needs.emplace_back(capability::kNetwork);
  return needs;
}

json::object toJsonObject(const ToolRules& rules) {
  json::object limits;
  const json::object most = limitsObject(rules.most);
  for (size_t i = 0; i < kLimitCount; ++i) {
    const std::string_view name = limitKinds()[i].name;
    if (rules.bounded.test(i)) limits[name] = most.at(name);
  }
  json::object shown{
      {"capabilities", json::array(rules.capabilities.begin(), rules.capabilities.end())},
      {"network", rules.network.tier},
      {"limits", std::move(limits)},
      {"risk", rules.risk},
      {"tier", rules.tier}};
  if (!rules.network.allow.empty() || rules.network.on_denied != OnDenied::kDeny)
    shown["network_policy"] = toJsonObject(rules.network);
  return shown;
}

}  // namespace cloister::model
