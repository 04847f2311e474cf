// SPDX-License-Identifier: Apache-2.0
// Neighbour: the sessions, as seen by RunService. Sessions share the nodes, the agents' quotas and
// rules, and approvals with runs. RunService knows sessions only through this interface. A
// neighbour joins at its construction (Programs::join()).
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
  // Adds the resources of the agent's sessions; null: of everybody's.
  virtual void addUse(const model::Principal* agent, AgentUse& used) const = 0;
  // At each check of the agents' rules: ends or moves sessions with permissions that their agent
  // lost.
  virtual void lookAtRules(RulesNow& now) = 0;
  // Ends work begun with an invalid credential.
  virtual void lookAtCredentials(const std::function<bool(const std::string&)>& stands) = 0;
  // Charges the quotas for processor time beyond the programs' time.
  virtual void charge() = 0;
  // Reports the escalation's end to all waiting work.
  virtual void settle(const model::Escalation& escalation) = 0;
  // As settle(), for all waiting work, by the ledger's present state.
  virtual void settleWaiting() = 0;
  // The principals of work waiting for the escalation.
  [[nodiscard]] virtual std::vector<model::Principal> waitingFor(
      const model::Escalation& escalation) const = 0;
};

}  // namespace cloister::orchestrator
