// SPDX-License-Identifier: Apache-2.0
// RulesNow: the agents' present rules, read from the ledger once for each agent. Made for a single
// look at all running executions. One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "orchestrator/guard/agent_guard.h"

namespace cloister::orchestrator {

class RulesNow {
 public:
  explicit RulesNow(const AgentGuard& guard) : guard_(guard) {}

  // The agent's present rules, if a sandbox made with the rules `held` permits an action that the
  // present rules deny; null if not, or if the agent has no rules now. An error: the rules are
  // unreadable now. Ignores rules that only compare texts (HeldRules::by_text): no sandbox enforces
  // such rules.
  Result<Held> stricter(const model::Principal& principal, const Held& held) {
    return stricterThan(held, principal, false, "none");
  }
  // The same of the sandbox of another agent's session, where its standing rules count. The plan of
  // the session's door follows the rules of its maker alone, so the tier counts too.
  Result<Held> stricterOnVisit(const model::Principal& principal, const Held& held,
                               std::string_view network_tier) {
    return stricterThan(held, principal, true, network_tier);
  }

 private:
  Result<Held> stricterThan(const Held& held, const model::Principal& principal, bool standing,
                            std::string_view network_tier) {
    const auto key = std::tuple(principal.tenant, principal.agent, principal.isAdmin(), standing);
    auto found = known_.find(key);
    if (found == known_.end()) {
      auto read = standing ? guard_.standingFor(principal) : guard_.heldFor(principal);
      found = known_.emplace(key, std::move(read)).first;
    }
    const Result<Held>& now = found->second;
    if (!now || !*now) return now;
    return letsMore(held, **now, network_tier) ? *now : Held();
  }

  const AgentGuard& guard_;
  std::map<std::tuple<std::string, std::string, bool, bool>, Result<Held>> known_;
};

// The agents' rules for questions that come often: at most kFresh old. The ledger is read once for
// each agent in this time.
class HeldLately {
 public:
  static constexpr Millis kFresh{200};

  // As AgentGuard::heldFor().
  Result<Held> of(const AgentGuard& guard, const model::Principal& principal) {
    const base::Monotonic now = base::monotonicNow();
    if (now >= until_) {
      known_.clear();
      until_ = now + kFresh;
    }
    const auto key = std::tuple(principal.tenant, principal.agent, principal.isAdmin());
    auto found = known_.find(key);
    if (found == known_.end()) found = known_.emplace(key, guard.heldFor(principal)).first;
    return found->second;
  }

 private:
  base::Monotonic until_{};
  std::map<std::tuple<std::string, std::string, bool>, Result<Held>> known_;
};

}  // namespace cloister::orchestrator
