// SPDX-License-Identifier: Apache-2.0
#include "policy/network_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/dependency.h"

namespace cloister::policy {
namespace {

using model::NetworkEntry;
using model::PlanRule;
using Grants = std::vector<PlanRule>;

constexpr std::string_view kRestricted = "restricted";
constexpr std::string_view kInternal = "internal";
constexpr std::string_view kApi = "api";
constexpr std::string_view kFull = "full";
constexpr size_t kShown = 8;  // destinations in a remedy
// Paths of a request together: each is compared with the paths of the rule.
constexpr size_t kMaxAskedPaths = 1024;

const AgentNetwork& agentOf(const Question& question) {
  static const AgentNetwork kNoRules;
  return question.agent_network == nullptr ? kNoRules : *question.agent_network;
}

PlanRule grantOf(NetworkEntry entry, std::string rule) {
  PlanRule grant;
  grant.anyone = entry.name == model::kAnyName;
  grant.entry = std::move(entry);
  grant.rule = std::move(rule);
  return grant;
}

// An entry of the rule, whose bytes count together however many destinations are asked of it.
PlanRule grantOf(const Rule& rule, const NetworkEntry& entry) {
  PlanRule grant = grantOf(entry, rule.name);
  const auto at = std::ranges::find(rule.network, entry) - rule.network.begin();
  if (entry.max_bytes != 0) grant.budget = static_cast<uint32_t>(at + 1);
  return grant;
}

// The entries of the rule and the approved destinations, which come first: a person decided about
// exactly these.
Grants publicGrants(const Rule& rule, const Question& question) {
  Grants grants;
  for (const ApprovedDestination& each : approvedAt(agentOf(question), question.now))
    grants.push_back(grantOf(each.entry, each.escalation));
  if (!accessPermits(agentOf(question).access, question.request.network.tier)) return grants;
  for (const NetworkEntry& entry : rule.network)
    grants.push_back(grantOf(rule, entry));
  return grants;
}

// The asked destination under the conditions of the grant.
PlanRule narrowed(const NetworkEntry& asked, const PlanRule& grant) {
  PlanRule rule = grant;
  rule.anyone = false;
  rule.entry.name = asked.name;
  rule.entry.ports = asked.ports;
  rule.entry.protocol = asked.protocol;
  if (!asked.methods.empty()) rule.entry.methods = asked.methods;
  if (!asked.paths.empty()) rule.entry.paths = asked.paths;
  return rule;
}

// The operator's destinations that the rule covers, under the conditions of its entries, and the
// entries of the rule that lie within one of these.
Grants internalGrants(const Rule& rule, const model::InternalDestinations& internal) {
  Grants grants;
  const auto add = [&](PlanRule grant) {
    const auto same = [&](const PlanRule& each) { return each.entry == grant.entry; };
    if (std::ranges::any_of(grants, same)) return;
    grant.internal = true;
    grants.push_back(std::move(grant));
  };
  for (const NetworkEntry& entry : rule.network) {
    const auto covers = [&](const NetworkEntry& other) { return liesWithin(entry, other); };
    if (std::ranges::any_of(internal.names, covers)) add(grantOf(rule, entry));
  }
  for (const NetworkEntry& entry : internal.names) {
    if (rule.network.empty()) add(grantOf(entry, rule.name));
    for (const NetworkEntry& outer : rule.network) {
      if (liesWithin(entry, outer)) add(narrowed(entry, grantOf(rule, outer)));
    }
  }
  return grants;
}

Grants apiGrants(const Rule& rule) {
  NetworkEntry entry;
  entry.name = kApiName;
  entry.ports = {80};
  entry.protocol = model::Protocol::kHttp;
  return {grantOf(std::move(entry), rule.name)};
}

Grants grantsFor(const Rule& rule, const Question& question) {
  const std::string& tier = question.request.network.tier;
  if (tier == kApi) return apiGrants(rule);
  if (tier != kInternal) return publicGrants(rule, question);
  return question.internal == nullptr ? Grants{} : internalGrants(rule, *question.internal);
}

// The advice names what the request could ask for instead.
std::string listed(const Grants& grants) {
  std::string text;
  for (size_t i = 0; i < std::min(grants.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + destinationText(grants[i].entry);
  return grants.size() > kShown ? text + ", …" : text;
}

Denied outside(const NetworkEntry& asked, const Rule& rule, const Grants& grants) {
  return {rule.name, "destination " + destinationText(asked) + " is not one that this rule grants",
          grants.empty() ? "leave it out, or ask the operator to add it to the rule's network"
                         : "ask for one of " + listed(grants) +
                               ", or ask the operator to add it to the rule's network"};
}

std::vector<uint16_t> commonPorts(const std::vector<uint16_t>& asked, const NetworkEntry& grant) {
  if (grant.ports.empty()) return asked;  // every port
  std::vector<uint16_t> ports;
  std::ranges::set_intersection(asked, grant.ports, std::back_inserter(ports));
  return ports;
}

// Adds the rules for an asked destination; false: a port of the destination is in no grant. A
// destination that names methods or paths takes the first grant for each port; any other takes what
// all grants together give. tooLarge() refuses what exceeds the bound.
bool addAsked(const NetworkEntry& asked, const Grants& grants, Grants& rules) {
  const bool named = !asked.methods.empty() || !asked.paths.empty();
  std::vector<uint16_t> open = asked.ports;
  for (const PlanRule& grant : grants) {
    if (rules.size() > model::kMaxNetworkEntries) return true;
    NetworkEntry part = asked;
    part.ports = commonPorts(named ? open : asked.ports, grant.entry);
    // An earlier entry for a part of the asked names keeps deciding about this part.
    const bool whole = liesWithin(part, grant.entry);
    if (!whole && model::coversPattern(asked.name, grant.entry.name)) part.name = grant.entry.name;
    if (part.ports.empty() || !liesWithin(part, grant.entry)) continue;
    if (whole) {
      std::erase_if(open,
                    [&](uint16_t port) { return std::ranges::binary_search(part.ports, port); });
    }
    PlanRule made = narrowed(part, grant);
    if (std::ranges::find(rules, made) == rules.end()) rules.push_back(std::move(made));
  }
  return open.empty();
}

// A request that has refused destinations asked for wants the approved ones: those of its agent's
// earlier sandboxes too. They never make the request too large.
void addApproved(const Question& question, Grants& rules) {
  const model::NetworkRequest& request = question.request.network;
  if (request.tier != kRestricted || request.on_denied == model::OnDenied::kDeny) return;
  for (const ApprovedDestination& each : approvedAt(agentOf(question), question.now)) {
    if (rules.size() >= model::kMaxNetworkEntries) return;
    PlanRule approved = grantOf(each.entry, each.escalation);
    if (std::ranges::find(rules, approved) == rules.end()) rules.push_back(std::move(approved));
  }
}

std::expected<Grants, Denied> asked(const Rule& rule, const Question& question,
                                    const Grants& grants) {
  size_t paths = 0;
  Grants rules;
  for (const NetworkEntry& entry : question.request.network.allow) {
    paths += entry.paths.size();
    if (paths > kMaxAskedPaths) {
      return std::unexpected(Denied{rule.name, "network_policy.allow names more than 1024 paths",
                                    "name fewer, with a * where they are alike"});
    }
    if (!addAsked(entry, grants, rules)) return std::unexpected(outside(entry, rule, grants));
  }
  addApproved(question, rules);
  return rules;
}

// Everything that the rule grants for the tier. An entry for any name belongs to the tier full.
std::expected<Grants, Denied> everything(const Rule& rule, const Question& question,
                                         Grants grants) {
  if (question.request.network.tier == kFull || grants.empty()) return grants;
  std::erase_if(grants, [](const PlanRule& grant) { return grant.anyone; });
  if (!grants.empty()) return grants;
  return std::unexpected(
      Denied{rule.name, "this rule grants any name, and the request names none",
             R"(name the destinations in network_policy.allow, or ask for {"tier":"full"})"});
}

// The gateway of an installer (model::kInstallerTenant). No code of a package may run there, and
// the layer may be shared: `pip` follows addresses in the requirements of wheels, so the other
// ecosystem and source distributions are out of its reach, whatever the rules of the tenant allow.
void narrowToInstaller(const Question& question, model::PlanPackages& packages) {
  const auto own = model::ecosystemOf(question.language);
  std::erase_if(packages.ecosystems, [&](model::Ecosystem each) { return each != own; });
  packages.rules.sdists_allowed = false;
}

// The gateway answers every sandbox with a door, unless the rule forbids it.
std::optional<model::PlanPackages> packagesOf(const Rule& rule, const Question& question) {
  if (question.packages == nullptr || !rule.packages) return std::nullopt;
  const model::Principal& who = question.principal;
  const bool installer = who.tenant == model::kInstallerTenant;
  model::PlanPackages packages{
      .ecosystems = question.packages->ecosystems(),
      .rules = question.packages->rulesOf(installer ? who.app : who.tenant),
      .cutoff = {}};
  if (installer) narrowToInstaller(question, packages);
  if (packages.ecosystems.empty()) return std::nullopt;
  return packages;
}

// A rule that names the tier restricted and has no entries grants the gateway alone.
bool grantsGatewayAlone(const Rule& rule, const Question& question) {
  const model::NetworkRequest& asked = question.request.network;
  const auto& named = rule.match.network_tiers;
  return asked.tier == kRestricted && asked.allow.empty() &&
         std::ranges::find(named, kRestricted) != named.end() &&
         packagesOf(rule, question).has_value();
}

// Tiers that open more than a list of names are granted only by a rule that names the tier.
std::optional<Denied> unnamed(const Rule& rule, const Question& question, const Grants& grants) {
  const std::string& tier = question.request.network.tier;
  const auto& named = rule.match.network_tiers;
  if (tier != kRestricted && std::ranges::find(named, tier) == named.end()) {
    return Denied{rule.name,
                  "this rule does not grant the network tier \"" + tier +
                      "\": its match.network_tiers does not name the tier",
                  "ask for less, or ask the operator for a rule that names the tier"};
  }
  const bool any_name = std::ranges::any_of(grants, &PlanRule::anyone);
  if (tier == kFull && !any_name) {
    return Denied{rule.name,
                  "this rule grants the tier \"full\" without an entry for the name \"*\"",
                  "ask for the tier restricted, or ask the operator to add the entry to the rule"};
  }
  if (!grants.empty() || grantsGatewayAlone(rule, question)) return std::nullopt;
  if (tier == kInternal) {
    return Denied{rule.name,
                  "the operator's list (egress.internal) has no destination for this rule",
                  "ask the operator to add the destination to egress.internal"};
  }
  return Denied{
      rule.name, "this rule grants no destination of a network",
      R"(run it with network_policy {"tier":"none"}, and send what it needs as files, or )"
      "ask the operator to add network to the rule"};
}

std::optional<Denied> byAgent(const Question& question) {
  const AgentNetwork& agent = agentOf(question);
  if (agentMayHave(agent, question.request.network, question.now)) return std::nullopt;
  return Denied{"",
                "the agent's network_access is " + agent.access + ", and network tier \"" +
                    question.request.network.tier + "\" is more",
                "run it without a network, or ask for an approval of the destination"};
}

std::optional<Denied> tooLarge(const model::NetworkPlan& plan, const Rule& rule) {
  if (plan.rules.size() <= model::kMaxNetworkEntries &&
      model::encodePlan(plan).size() <= model::kMaxPlanBytes)
    return std::nullopt;
  return Denied{rule.name, "the request names more destinations than a sandbox can have",
                "name fewer, with a * where they are alike"};
}

}  // namespace

std::expected<model::NetworkPlan, Denied> networkPlan(const Policy& policy, const Rule& rule,
                                                      const Question& question) {
  const model::NetworkRequest& request = question.request.network;
  if (auto denied = byAgent(question)) return std::unexpected(*std::move(denied));
  Grants grants = grantsFor(rule, question);
  if (auto denied = unnamed(rule, question, grants)) return std::unexpected(*std::move(denied));
  auto rules = request.allow.empty() ? everything(rule, question, std::move(grants))
                                     : asked(rule, question, grants);
  if (!rules) return std::unexpected(std::move(rules).error());
  model::NetworkPlan plan;
  plan.permit = question.permit_id;
  plan.tier = request.tier;
  plan.tenant = question.principal.tenant;
  plan.agent = question.principal.agent;
  plan.policy_id = policy.id;
  plan.rules = *std::move(rules);
  plan.on_denied = request.on_denied;
  plan.requests_per_minute = agentOf(question).requests_per_minute;
  if (request.tier == kInternal) plan.internal_networks = question.internal->networks;
  plan.packages = packagesOf(rule, question);
  if (auto denied = tooLarge(plan, rule)) return std::unexpected(*std::move(denied));
  return plan;
}

}  // namespace cloister::policy
