// SPDX-License-Identifier: Apache-2.0
// EscalationService: the requests of people and agents about escalations. Runs and sessions stopped
// by policy make their escalations themselves (blocking.cc, session_asks.cc). The service does the
// rest: requests by hand, queries, decisions, an agent's policy, and the expiry of undecided
// escalations and of permissions. On the executor of Control (one thread).
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

// Whether a rule approves an agent's safe operations, and the setting that decides.
struct AutoApproval {
  bool safe = false;
  std::string by = "default";  // or of policy::approved_by
  std::string level;           // of the agent; "" without one
};

class EscalationService {
 public:
  // Watches `approvals` (RunService::approvals()) and the nodes of `control`. `agents`: what agents
  // are held to, outlives it; null: nothing.
  EscalationService(std::shared_ptr<Control> control, std::shared_ptr<Approvals> approvals,
                    const AgentGuard* agents);
  ~EscalationService();
  EscalationService(const EscalationService&) = delete;
  EscalationService& operator=(const EscalationService&) = delete;

  // Requests by hand: for a run, bound to exactly the given request, or for a permission.
  // Operations that the agent's policy calls safe are approved at once. kQuota: too many wait.
  Task<Result<model::Escalation>> request(model::Principal principal,
                                          model::EscalationRequest request);
  // `tenant`: chosen by an administrator; "" for the principal's own, or if only a single tenant
  // has the escalation.
  Result<model::Escalation> get(const model::Principal& principal, const std::string& tenant,
                                const std::string& id);
  // The whole request, as accepted. The caller checks whether a reader may see the request.
  Result<base::json::object> requestOf(const model::Escalation& escalation);
  // The content of the session's workspace at the time of the request (workspace_list.h), under the
  // same condition; null without a workspace.
  Result<base::json::value> workspaceOf(const model::Escalation& escalation);
  Result<std::vector<model::Escalation>> list(const model::Principal& principal,
                                              const store::EscalationQuery& query);
  // The usual wait of the tenant's latest decided requests, in seconds; nullopt: none was decided.
  Result<std::optional<int64_t>> usualWait(const model::Principal& principal);

  // Records a vote; see policy/approval.h. A refused vote is audited too. Executions waiting for
  // the approval continue by themselves.
  Task<Result<model::Escalation>> decide(model::Principal principal, std::string tenant,
                                         std::string id, bool approve, model::Vote vote);

  // Audits an attempt to decide without the permission; nothing for an escalation outside of the
  // principal's scope.
  Task<void> noteRefused(model::Principal principal, std::string tenant, std::string id,
                         bool approve);

  Result<model::EscalationPolicy> policyOf(const model::Principal& principal,
                                           const std::string& agent);
  // The agent's policy, its sandbox and its level together. kDenied: its rules cannot be read.
  Result<AutoApproval> autoApprovalOf(const model::Principal& principal, const std::string& agent);
  Task<Result<model::EscalationPolicy>> setPolicy(model::Principal principal, std::string agent,
                                                  bool auto_approve_safe);

  // Called with the io thread's next turn when there may be notifications to deliver.
  void onNews(std::function<void()> news);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::orchestrator
