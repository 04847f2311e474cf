// SPDX-License-Identifier: Apache-2.0
// RulesNow: what agents are held to at one moment, asked of the ledger once for each agent. It is
// made for one look at all that runs. One thread.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "orchestrator/agent_guard.h"

namespace cloister::orchestrator {

class RulesNow {
 public:
  explicit RulesNow(const AgentGuard& guard) : guard_(guard) {}

  // What of that which `held` lets the programs of a sandbox do has since been taken from its
  // agent: what it is held to now; null where nothing was. An error: it cannot be read now. Rules
  // that are only text compared with text (HeldRules::by_text) are none of a sandbox's.
  Result<Held> stricter(const model::Principal& principal, const Held& held) {
    const auto key = std::tuple(principal.tenant, principal.agent, principal.isAdmin());
    auto found = known_.find(key);
    if (found == known_.end()) found = known_.emplace(key, guard_.heldFor(principal)).first;
    const Result<Held>& now = found->second;
    if (!now || !*now) return now;
    return letsMore(held, **now) ? *now : Held();
  }

 private:
  const AgentGuard& guard_;
  std::map<std::tuple<std::string, std::string, bool>, Result<Held>> known_;
};

}  // namespace cloister::orchestrator
