// SPDX-License-Identifier: Apache-2.0
// Approvals: the part of runs for sessions and escalations, about work that waits for approval. The
// escalation in the ledger is the truth; waiting work follows the escalation. RunService provides
// the interface (RunService::approvals()).
//
// On the services' executor (one thread).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/escalation.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "orchestrator/core/task.h"
#include "orchestrator/guard/approval.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

class Approvals {
 public:
  // Notified of new escalations and new notifications.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void escalated() = 0;
  };

  virtual ~Approvals() = default;
  [[nodiscard]] virtual const EscalationConfig& escalationConfig() const = 0;
  virtual void watch(std::weak_ptr<Watcher> watcher) = 0;
  // Tells the watcher.
  virtual void announce() = 0;

  // Begin. Waits until no other request of the same agent is between waitingLike() and the ledger:
  // until the result is destroyed, no other begins. So the bounds count each request once.
  virtual Task<std::shared_ptr<void>> beginAsking(model::Principal by) = 0;
  // kQuota: too many of the agent wait already.
  [[nodiscard]] virtual Result<> mayAskByHand(const model::Principal& by) const = 0;
  // A waiting escalation for the same request, if any. kQuota with kPendingOfAgent: too many wait.
  [[nodiscard]] virtual Result<std::optional<model::Escalation>> waitingLike(
      const Alike& asked) const = 0;
  // The approval that policy wants for the run now; nothing if no approval is needed.
  virtual Task<std::optional<policy::NeedsApproval>> wantedNow(model::Principal principal,
                                                               model::RunRequest request) = 0;

  // Follow. Number of runs and sessions waiting for the escalation.
  [[nodiscard]] virtual uint32_t waitingFor(const model::Escalation& e) const = 0;
  // Success if at least one waiting requester has a valid credential, or nothing waits. kDenied
  // otherwise.
  [[nodiscard]] virtual Result<> someoneStands(const model::Escalation& e) const = 0;
  // Strikes the votes of revoked credentials, also in the ledger, and returns the escalation.
  // kPending: the escalation waits for other votes.
  virtual Task<Result<model::Escalation>> withStandingVotes(model::Escalation e) = 0;

  // Settle. Reports the escalation's end to all waiting work.
  virtual void settle(const model::Escalation& e) = 0;
  // As settle(), for all waiting work, by the ledger's present state.
  virtual void settleWaiting() = 0;
  // Closes an escalation without waiting work. `why`: how the last waiting run or session ended.
  virtual Task<void> closeEscalation(model::Escalation e, std::string why) = 0;
  // Denies the escalation for `why`: the effect would now differ from the approved effect.
  virtual Task<void> denyForEffect(model::Escalation e, std::string why) = 0;
};

}  // namespace cloister::orchestrator
