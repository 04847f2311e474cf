// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/guard/questions.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/id.h"
#include "policy/agent/network.h"

namespace cloister::orchestrator {
namespace {

using policy::Validation;

constexpr size_t kMostWanted = 32;
constexpr size_t kMostTarget = 8192;  // bytes, as in a request by hand
constexpr std::string_view kNetwork = "network";

// A refusal by `rules`, perhaps another agent's, in whose session the request runs. The refusal
// then is no violation of the principal's own rules, and does not lower the principal's level.
AgentRefusal refusalOf(const policy::AgentRules& rules, const model::Principal& principal,
                       const Validation& v, std::string_view operation, const std::string& what) {
  AgentRefusal refusal;
  const std::string remedy =
      !v.mitigations.empty() ? v.mitigations.front() : std::string("ask for a higher level");
  refusal.denied.rule = v.rule;
  refusal.denied.reason = v.reason;
  refusal.denied.remedy = remedy + (v.escalation_available ? ", or ask for an approval" : "");
  refusal.details = policy::toJsonObject(v);
  refusal.details["agent"] = rules.agent;
  refusal.details["level"] = rules.level.name;
  refusal.details["operation"] = operation;
  refusal.details["mitigation"] = remedy;
  model::Violation& violation = refusal.violation;
  violation.id = base::newId("vio");
  violation.tenant = principal.tenant;
  violation.agent = principal.agent;
  violation.at = base::wallMicros();
  violation.level = rules.level.name;
  violation.operation = operation;
  violation.what = model::shownText(what);
  const bool own = rules.agent == principal.agent;
  violation.outcome = own ? policy::kindName(v.kind) : model::Violation::kBoundary;
  refusal.details["outcome"] = violation.outcome;
  violation.rule = model::shownText(v.rule);
  const std::string whose = own ? "" : "by the rules of " + nameOfAgent(rules.agent) + ": ";
  violation.reason = model::shownText(whose + v.reason);
  violation.words = model::shownText(v.words);
  return refusal;
}

// As approvals name it; policy::destinationsOf() reads it back.
std::string urlOf(const model::NetworkEntry& entry, uint16_t port) {
  const std::string_view scheme = entry.protocol == model::Protocol::kTls    ? "https"
                                  : entry.protocol == model::Protocol::kHttp ? "http"
                                                                             : "tcp";
  return std::string(scheme) + "://" + entry.name + ":" + std::to_string(port);
}

}  // namespace

std::string nameOfAgent(const std::string& agent) {
  return agent.empty() ? "a key without an agent" : "agent " + agent;
}

Questions::Questions(const policy::AgentRules& rules, const model::Principal& principal)
    : rules_(rules), principal_(principal), now_(base::wallMicros()) {}

bool Questions::ask(const policy::Operation& operation) {
  const Validation v = policy::validateOperation(rules_, operation, {}, now_);
  if (!v.approved()) want(operation, v);
  return v.approved();
}

void Questions::askResources(const policy::Resources& wanted, const policy::Resources& used) {
  const Validation v = policy::validateResources(rules_, wanted, used);
  if (!v.approved()) refuse(v, "resources", v.rule);
}

void Questions::refuse(const Validation& v, std::string_view operation, const std::string& what) {
  if (!refusal_) refusal_ = refusalOf(rules_, principal_, v, operation, what);
}

std::optional<AgentRefusal> Questions::take() {
  if (refusal_ || !open_) return std::move(refusal_);
  open_->wants = std::move(wants_);
  open_->needs_person = needs_person_;
  open_->safe_by = std::move(safe_by_);
  open_->timeout_seconds = rules_.timeout_seconds;
  return std::move(open_);
}

void Questions::want(const policy::Operation& operation, const Validation& v) {
  const std::string target = policy::targetOf(operation);
  // A path that reads as a pattern cannot be approved by itself; and no person reads a command of
  // pages.
  const bool plain = std::holds_alternative<policy::CommandOperation>(operation.what) ||
                     target.find_first_of("*?[") == std::string::npos;
  const bool full = wants_.size() == kMostWanted || target.size() > kMostTarget;
  if (!v.escalation_available || !plain || full)
    return refuse(v, policy::nameOf(operation), target);
  wants_.push_back({std::string(policy::nameOf(operation)), target});
  needs_person_ = needs_person_ || v.human_approval;
  if (std::ranges::find(safe_by_, v.safe_by) == safe_by_.end()) safe_by_.push_back(v.safe_by);
  if (!open_) open_ = refusalOf(rules_, principal_, v, policy::nameOf(operation), target);
}

// False: the rules refuse none of the destinations by themselves.
bool Questions::askDestinations(const std::vector<model::NetworkEntry>& allow) {
  bool refused = false;
  for (const model::NetworkEntry& entry : allow) {
    for (const uint16_t port : entry.ports) {
      const policy::NetworkOperation connection{.url = urlOf(entry, port)};
      refused = !ask({.what = connection, .wanted = {}}) || refused;
    }
  }
  return refused;
}

// A level that does not permit the tier restricted may still have destinations approved by a
// person, so each asked destination is a question of its own. No approval opens the other tiers.
void Questions::askNetwork(const model::NetworkRequest& network) {
  const policy::AgentNetwork agent = policy::networkOf(rules_, now_);
  if (policy::agentMayHave(agent, network, now_)) return;
  const bool approvable =
      !rules_.revoked.contains(kNetwork) && rules_.limits.requests_per_minute.value_or(1) != 0;
  if (network.tier == "restricted" && approvable && askDestinations(network.allow)) return;
  const std::string level = "level " + rules_.level.name;
  const std::string tier = ", and tier " + network.tier;
  Validation v;
  v.kind = Validation::Kind::kDenied;
  v.reason = agent.access == "denied"
                 ? level + " has no network" + tier + " is one"
                 : level + " has network_access " + agent.access + tier + " is more";
  v.escalation_available = true;
  v.mitigations = {"run it without a network, and send what it needs as files"};
  refuse(v, kNetwork, network.tier);
}

}  // namespace cloister::orchestrator
