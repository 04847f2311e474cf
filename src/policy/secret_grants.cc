// SPDX-License-Identifier: Apache-2.0
#include "policy/secret_grants.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/glob.h"

namespace cloister::policy {
namespace {

using model::PlanRule;
using model::SecretAs;
using model::SecretGrant;
using model::SecretUse;

bool grants(const SecretGrant& grant, const SecretUse& use) {
  if (!base::globMatches(grant.name, use.name)) return false;
  if (std::ranges::find(grant.as, use.as) == grant.as.end()) return false;
  if (use.as != SecretAs::kBroker) return true;
  return std::ranges::any_of(grant.hosts, [&](const std::string& pattern) {
    return model::coversName(pattern, use.host);
  });
}

std::string destinationOf(const SecretUse& use) {
  return use.host + ":" + std::to_string(use.port);
}

bool covers(const PlanRule& rule, const std::string& host, uint16_t port) {
  const bool name = rule.anyone || model::coversName(rule.entry.name, host);
  const auto& ports = rule.entry.ports;
  return name && (ports.empty() || std::ranges::binary_search(ports, port));
}

bool covers(const PlanRule& rule, const SecretUse& use) {
  return covers(rule, use.host, use.port);
}

// The rule for this destination alone, inspected.
PlanRule inspected(const PlanRule& rule, const SecretUse& use) {
  PlanRule made = rule;
  made.anyone = false;
  made.entry.name = use.host;
  made.entry.ports = {use.port};
  made.entry.inspect = true;
  return made;
}

// Every rule that may decide about a request to the destination is inspected: whether a connection
// is inspected is known before its first request.
void inspectDestination(model::NetworkPlan& plan, const SecretUse& use) {
  std::vector<PlanRule> made;
  for (const PlanRule& rule : plan.rules) {
    if (!covers(rule, use) || rule.entry.protocol != model::Protocol::kTls) continue;
    made.push_back(inspected(rule, use));
  }
  const auto covering = [&](const PlanRule& rule) { return covers(rule, use); };
  plan.rules.insert(std::ranges::find_if(plan.rules, covering), made.begin(), made.end());
}

Denied unreachable(const Rule& rule, const SecretUse& use) {
  return {rule.name,
          "secret " + secretText(use) + ": the sandbox may not reach " + destinationOf(use),
          "add \"" + destinationOf(use) +
              "\" to network_policy.allow, or ask the operator to add it to the rule's network"};
}

Denied unreadable(const Rule& rule, const SecretUse& use) {
  return {rule.name,
          "secret " + secretText(use) + ": the protocol of " + destinationOf(use) +
              " is tcp, and secrets go into requests of HTTP alone",
          "ask for {\"name\": \"" + use.host + "\", \"ports\": [" + std::to_string(use.port) +
              "], \"protocol\": \"tls\"} in network_policy.allow"};
}

Denied tooManyRules(const Rule& rule) {
  return {rule.name, "the request names more destinations than a sandbox can have",
          "name fewer, with a * where they are alike"};
}

}  // namespace

std::string secretText(const SecretUse& use) {
  std::string text = use.name + " as " + std::string(model::secretAsName(use.as));
  return use.as == SecretAs::kBroker ? text + " to " + destinationOf(use) : text;
}

std::optional<Denied> overSecrets(const Rule& rule, const Question& question) {
  if (question.operation == "files" || question.operation == "kernel") return std::nullopt;
  for (const SecretUse& use : question.request.secrets) {
    const auto by = [&](const SecretGrant& grant) { return grants(grant, use); };
    if (std::ranges::any_of(rule.secrets, by)) continue;
    return Denied{rule.name, "this rule does not grant the secret " + secretText(use),
                  "do without it, or ask the operator to add it to the rule's secrets"};
  }
  return std::nullopt;
}

std::optional<Denied> addBrokered(const Rule& rule, const Question& question,
                                  model::NetworkPlan& plan) {
  std::vector<const SecretUse*> done;
  for (const SecretUse& use : question.request.secrets) {
    if (use.as != SecretAs::kBroker) continue;
    const auto covering = [&](const PlanRule& each) { return covers(each, use); };
    const auto deciding = std::ranges::find_if(plan.rules, covering);
    if (deciding == plan.rules.end()) return unreachable(rule, use);
    if (deciding->entry.protocol == model::Protocol::kTcp) return unreadable(rule, use);
    const bool known = std::ranges::any_of(done, [&](const SecretUse* other) {
      return other->host == use.host && other->port == use.port;
    });
    if (!known && deciding->entry.protocol == model::Protocol::kTls) inspectDestination(plan, use);
    done.push_back(&use);
  }
  if (question.brokered != nullptr) plan.secrets = *question.brokered;
  const bool fits = plan.rules.size() <= model::kMaxNetworkEntries &&
                    model::encodePlan(plan).size() <= model::kMaxPlanBytes;
  return fits ? std::nullopt : std::optional(tooManyRules(rule));
}

std::vector<std::string> weakenedBySecrets(const model::NetworkPlan& plan) {
  std::vector<std::string> weakened;
  for (const model::PlanSecret& secret : plan.secrets) {
    const auto covering = [&](const PlanRule& rule) {
      return covers(rule, secret.host, secret.port);
    };
    const auto rule = std::ranges::find_if(plan.rules, covering);
    if (rule == plan.rules.end() || rule->entry.protocol != model::Protocol::kHttp) continue;
    weakened.push_back("secret " + secret.name + " goes to " + secret.host + ":" +
                       std::to_string(secret.port) +
                       " over plain HTTP, which everybody on the way can read");
  }
  return weakened;
}

}  // namespace cloister::policy
