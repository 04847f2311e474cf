// SPDX-License-Identifier: Apache-2.0
#include "egress/service/permit_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cloister::egress {
namespace {

// Further refused destinations whose repetition is known; beyond, each refusal counts as another
// destination.
constexpr size_t kMostLeftOut = 1024;

std::string keyOf(std::string_view host, uint16_t port, std::string_view rule,
                  std::string_view transport = "") {
  std::string key(host);
  key += '\0';
  key += std::to_string(port);
  key += '\0';
  key += rule;
  key += '\0';
  key += transport;
  return key;
}

// The counter of bytes of a rule with a bound.
std::string budgetOf(const model::PlanRule& rule) {
  if (rule.budget != 0) return rule.rule + '\0' + std::to_string(rule.budget);
  const auto& ports = rule.entry.ports;
  return keyOf(rule.entry.name, ports.empty() ? 0 : ports.front(), rule.rule);
}

bool sameDestination(const model::DeniedDestination& a, const model::DeniedDestination& b) {
  return a.host == b.host && a.port == b.port && a.transport == b.transport && a.rule == b.rule;
}

// The names of the plan whose TLS is read.
std::vector<std::string> inspectedNames(const model::NetworkPlan& plan) {
  std::vector<std::string> names;
  for (const model::PlanRule& rule : plan.rules) {
    if (rule.entry.inspect) names.push_back(rule.entry.name);
  }
  for (const model::PlanSecret& secret : plan.secrets) {
    const Verdict verdict = egress::judge(plan, {.host = secret.host, .port = secret.port});
    const bool tls = verdict.allowed && verdict.rule->entry.protocol == model::Protocol::kTls;
    if (tls) names.push_back(secret.host);
  }
  return names;
}

}  // namespace

PermitState::PermitState(boost::asio::any_io_executor executor, std::string id,
                         const Settings& settings)
    : id_(std::move(id)),
      changed_(std::move(executor)),
      connections_(settings.connections_per_second, settings.connections_per_second),
      lookups_(settings.lookups_per_second, settings.lookups_per_second) {}

Result<> PermitState::set(std::shared_ptr<const PlanInForce> plan, std::shared_ptr<Bucket> agent) {
  if (!authority_) {
    auto names = inspectedNames(plan->plan);
    if (!names.empty()) authority_ = TRY(Authority::make(std::move(names)));
  }
  plan_ = std::move(plan);
  agent_ = std::move(agent);
  makeBroker();
  // Values that the plan does not use are wiped.
  std::erase_if(values_, [&](const auto& value) {
    const auto& secrets = plan_->plan.secrets;
    return std::ranges::find(secrets, value.first, &model::PlanSecret::id) == secrets.end();
  });
  wanted_.clear();
  changed_.notify();
  return {};
}

void PermitState::end(bool forever) {
  plan_.reset();
  broker_.reset();
  values_.clear();
  if (forever) authority_.reset();
  changed_.notify();
}

void PermitState::learn(SecretValues values) {
  values.merge(values_);  // of the same id the new one stays
  values_ = std::move(values);
  if (plan_) makeBroker();
}

void PermitState::makeBroker() {
  const auto& secrets = plan_->plan.secrets;
  broker_ = secrets.empty() ? nullptr : Broker::make(secrets, values_);
}

Verdict PermitState::judge(const Attempt& attempt) const {
  if (plan_) return egress::judge(plan_->plan, attempt);
  Verdict refused;
  refused.reason = "The sandbox has no permission to use the network any more.";
  refused.remedy = "Start another run or session.";
  return refused;
}

bool PermitState::countBytes(const model::PlanRule* rule, uint64_t in, uint64_t out) {
  use_.bytes_in += in;
  use_.bytes_out += out;
  if (rule == nullptr || rule->entry.max_bytes == 0) return true;
  uint64_t& used = bytes_by_rule_[budgetOf(*rule)];
  used += in + out;
  return used <= rule->entry.max_bytes;
}

void PermitState::countDenied(const model::DeniedDestination& denied) {
  const auto known = std::ranges::find_if(
      use_.denied, [&](const auto& each) { return sameDestination(each, denied); });
  if (known != use_.denied.end()) {
    known->count += denied.count;
  } else if (use_.denied.size() < model::kMaxDeniedShown) {
    use_.denied.push_back(denied);
  } else {
    std::string key = keyOf(denied.host, denied.port, denied.rule, denied.transport);
    if (denied_left_out_.contains(key)) return;
    if (denied_left_out_.size() < kMostLeftOut) denied_left_out_.insert(std::move(key));
    ++use_.denied_left_out;
  }
}

bool PermitState::isNewlyWanted(std::string_view host, uint16_t port, std::string_view rule) const {
  const auto known = wanted_.find(keyOf(host, port, rule));
  if (known == wanted_.end()) return wanted_.size() < kMostWanted;
  return base::monotonicNow() - known->second >= kWantedLately;
}

bool PermitState::firstWanted(std::string_view host, uint16_t port, std::string_view rule) {
  if (!isNewlyWanted(host, port, rule)) return false;
  wanted_[keyOf(host, port, rule)] = base::monotonicNow();
  return true;
}

}  // namespace cloister::egress
