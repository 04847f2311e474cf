// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/network_wish.h"

#include <algorithm>
#include <utility>

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr std::string_view kEveryName = "*";
constexpr size_t kMostReason = 160;

// Targets have no port in OpenSandbox: the web's two are meant.
std::vector<model::NetworkEntry> entriesOf(const std::string& target) {
  std::vector<model::NetworkEntry> entries;
  for (const uint16_t port : {uint16_t{443}, uint16_t{80}}) {
    model::NetworkEntry entry;
    entry.name = target;
    entry.ports = {port};
    entry.protocol = model::protocolOfPort(port);
    entries.push_back(std::move(entry));
  }
  return entries;
}

model::NetworkRequest networkOf(std::string tier, std::vector<model::NetworkEntry> allow = {}) {
  model::NetworkRequest network;
  network.tier = std::move(tier);
  network.allow = std::move(allow);
  return network;
}

Task<Result<json::object>> planOf(RestParts& parts, model::Principal principal,
                                  model::NetworkRequest network) {
  model::RunRequest request;
  request.command = std::vector<std::string>{"true"};
  request.network = std::move(network);
  model::settle(request.limits);
  co_return co_await parts.service.plan(std::move(principal), std::move(request));
}

// Policy's answer: nothing for a grant, otherwise the reason.
Task<Result<std::optional<std::string>>> refusal(RestParts& parts, model::Principal principal,
                                                 model::NetworkRequest network) {
  auto plan = co_await planOf(parts, std::move(principal), std::move(network));
  if (plan) co_return std::nullopt;
  const Code code = plan.error().code;
  if (code == Code::kUnavailable || code == Code::kInternal) {
    co_return std::unexpected(std::move(plan).error());
  }
  co_return std::string(
      base::withoutCutCharacter(std::string_view(plan.error().message).substr(0, kMostReason)));
}

// Every name, or else everything that policy grants.
Task<Result<GrantedNetwork>> everything(RestParts& parts, model::Principal principal) {
  GrantedNetwork granted;
  for (const char* tier : {"full", "restricted"}) {
    const auto why = CO_TRY(co_await refusal(parts, principal, networkOf(tier)));
    if (!why) {
      granted.network = networkOf(tier);
      co_return granted;
    }
    if (granted.cut.empty()) granted.cut.push_back({std::string(kEveryName), *why});
  }
  co_return granted;
}

}  // namespace

Task<Result<GrantedNetwork>> grantedPart(RestParts& parts, model::Principal principal,
                                         EgressPolicy wish) {
  const bool denies = std::ranges::any_of(wish.rules, [](const auto& rule) { return !rule.allow; });
  if (wish.allow_by_default && !denies) co_return co_await everything(parts, std::move(principal));
  GrantedNetwork granted;
  if (wish.allow_by_default) {
    granted.cut.push_back({std::string(kEveryName),
                           "every name but the denied ones cannot be allowed here; allow the "
                           "needed names one by one"});
  }
  std::vector<std::string> targets;
  for (const EgressRule& rule : wish.rules) {
    if (rule.allow) targets.push_back(rule.target);
  }
  std::vector<model::NetworkEntry> all;
  for (const std::string& target : targets)
    std::ranges::move(entriesOf(target), std::back_inserter(all));
  if (all.empty()) co_return granted;
  if (!CO_TRY(co_await refusal(parts, principal, networkOf("restricted", all)))) {
    granted.network = networkOf("restricted", std::move(all));
    co_return granted;
  }
  std::vector<model::NetworkEntry> some;
  for (const std::string& target : targets) {
    std::optional<std::string> first;
    bool any = false;
    for (model::NetworkEntry& entry : entriesOf(target)) {
      const auto why = CO_TRY(co_await refusal(parts, principal, networkOf("restricted", {entry})));
      if (why && !first) first = why;
      if (why) continue;
      any = true;
      some.push_back(std::move(entry));
    }
    if (!any) granted.cut.push_back({target, first.value_or("")});
  }
  if (!some.empty()) granted.network = networkOf("restricted", std::move(some));
  co_return granted;
}

json::array toJsonArray(const std::vector<CutRule>& cut) {
  json::array rules;
  for (const CutRule& each : cut)
    rules.push_back({{"action", "allow"}, {"target", each.target}, {"reason", each.reason}});
  return rules;
}

Task<std::vector<std::string>> reachedNames(RestParts& parts, model::Principal principal,
                                            model::NetworkRequest network) {
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  if (network.tier == "none") co_return names;
  for (const model::NetworkEntry& entry : network.allow)
    add(entry.name);
  if (!names.empty()) co_return names;
  const auto described = co_await planOf(parts, std::move(principal), std::move(network));
  const json::value* found = described ? described->if_contains("network") : nullptr;
  if (found == nullptr) co_return names;
  if (const auto plan = model::decodePlan(base::toJson(*found))) {
    for (const model::PlanRule& rule : plan->rules)
      add(rule.entry.name);
  }
  co_return names;
}

}  // namespace cloister::api::compat::opensandbox
