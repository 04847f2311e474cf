// SPDX-License-Identifier: Apache-2.0
#include "egress/service/permit_state.h"

#include <algorithm>
#include <utility>

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

}  // namespace

PermitState::PermitState(boost::asio::any_io_executor executor, std::string id,
                         const Settings& settings)
    : id_(std::move(id)),
      changed_(std::move(executor)),
      connections_(settings.connections_per_second, settings.connections_per_second),
      lookups_(settings.lookups_per_second, settings.lookups_per_second) {}

void PermitState::set(std::shared_ptr<const PlanInForce> plan, std::shared_ptr<Bucket> agent) {
  plan_ = std::move(plan);
  agent_ = std::move(agent);
  wanted_.clear();
  changed_.notify();
}

void PermitState::end() {
  plan_.reset();
  changed_.notify();
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
