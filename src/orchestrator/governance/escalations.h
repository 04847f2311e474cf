// SPDX-License-Identifier: Apache-2.0
// EscalationService: what people and agents ask of escalations. Runs that policy wants approved
// make theirs themselves (blocking.cc), and sessions (session_asks.cc); here is the rest: asking by
// hand, looking, deciding, an agent's policy, and time: what nobody decided on expires, and so does
// a permission. On the executor of Control (one thread).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/escalation.h"
#include "model/principal.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/task.h"
#include "store/store.h"

namespace cloister::orchestrator {

class AgentGuard;
class Approvals;

class EscalationService {
 public:
  // Watches `approvals` (RunService::approvals()) and the nodes of `control`. `agents`: what agents
  // are held to, outlives it; null: nothing.
  EscalationService(std::shared_ptr<Control> control, std::shared_ptr<Approvals> approvals,
                    const AgentGuard* agents);
  ~EscalationService();
  EscalationService(const EscalationService&) = delete;
  EscalationService& operator=(const EscalationService&) = delete;

  // Asks by hand: for a run, bound to exactly that request, or for a permission. What the agent's
  // policy calls safe is approved at once. kQuota: too many wait.
  Task<Result<model::Escalation>> request(model::Principal principal,
                                          model::EscalationRequest request);
  // `tenant`: of whom, for an administrator; "" for one's own, or where only one has it.
  Result<model::Escalation> get(const model::Principal& principal, const std::string& tenant,
                                const std::string& id);
  // All that it asks for, as it was accepted. Whoever calls looks whether it may be shown.
  Result<base::json::object> requestOf(const model::Escalation& escalation);
  // What its session's workspace had in it when it was asked for (workspace_list.h), as
  // requestOf(); null where it has none.
  Result<base::json::value> workspaceOf(const model::Escalation& escalation);
  Result<std::vector<model::Escalation>> list(const model::Principal& principal,
                                              const store::EscalationQuery& query);
  // Seconds that requests of the principal's tenant have waited of late; nullopt: none was decided.
  Result<std::optional<int64_t>> usualWait(const model::Principal& principal);

  // One vote; see policy/approval.h. A refused one is audited too. What was approved goes on by
  // itself.
  Task<Result<model::Escalation>> decide(model::Principal principal, std::string tenant,
                                         std::string id, bool approve, model::Vote vote);

  // Audits that the principal, who lacks the permission to decide, tried to; nothing for an
  // escalation that it cannot see.
  Task<void> noteRefused(model::Principal principal, std::string tenant, std::string id,
                         bool approve);

  Result<model::EscalationPolicy> policyOf(const model::Principal& principal,
                                           const std::string& agent);
  Task<Result<model::EscalationPolicy>> setPolicy(model::Principal principal, std::string agent,
                                                  bool auto_approve_safe);

  // Called with the io thread's next turn when there may be notifications to deliver.
  void onNews(std::function<void()> news);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::orchestrator
