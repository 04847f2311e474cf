// SPDX-License-Identifier: Apache-2.0
// Neighbour: what shares the nodes, the agents' quotas and rules, and approvals with runs:
// sessions. RunService asks and tells the neighbour through this, and knows nothing else of it. It
// joins at its construction (Programs::join()).
//
// On the services' executor (one thread).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/escalation.h"
#include "model/principal.h"
#include "orchestrator/core/agent_use.h"
#include "orchestrator/guard/rules_now.h"

namespace cloister::orchestrator {

class Neighbour {
 public:
  virtual ~Neighbour() = default;
  // Adds what the agent has running there; null: everybody.
  virtual void addUse(const model::Principal* agent, AgentUse& used) const = 0;
  // At each look at the rules of agents: ends or moves what may do what its agent may no longer.
  virtual void lookAtRules(RulesNow& now) = 0;
  // Ends what began with a credential that does not stand.
  virtual void lookAtCredentials(const std::function<bool(const std::string&)>& stands) = 0;
  // Charges the quotas for processor time that is no program's.
  virtual void charge() = 0;
  // Tells all that waits for the escalation how it ended.
  virtual void settle(const model::Escalation& escalation) = 0;
  // The same for all that waits, by what the ledger has now.
  virtual void settleWaiting() = 0;
  // The principals that asked for what waits for it.
  [[nodiscard]] virtual std::vector<model::Principal> waitingFor(
      const model::Escalation& escalation) const = 0;
};

}  // namespace cloister::orchestrator
