// SPDX-License-Identifier: Apache-2.0
// Approvals: the part of runs that sessions and escalations use for what waits for approval. The
// escalation in the ledger is the truth; what waits follows it. RunService gives it
// (RunService::approvals()).
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
  // Is told that there is something new to decide, or to tell.
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

  // Begin. Whoever asks is counted with those that wait, from before waitingLike() until what is
  // returned goes, when the ledger has what was asked.
  virtual std::shared_ptr<void> beginAsking(const model::Principal& by) = 0;
  // kQuota: too many of the agent wait already.
  [[nodiscard]] virtual Result<> mayAskByHand(const model::Principal& by) const = 0;
  // One that waits for the same, if there is one. kQuota with kPendingOfAgent: too many wait.
  [[nodiscard]] virtual Result<std::optional<model::Escalation>> waitingLike(
      const Alike& asked) const = 0;
  // The approval that policy wants for the run now; nothing where it wants none.
  virtual Task<std::optional<policy::NeedsApproval>> wantedNow(model::Principal principal,
                                                               model::RunRequest request) = 0;

  // Follow. How many wait for it, runs and sessions.
  [[nodiscard]] virtual uint32_t waitingFor(const model::Escalation& e) const = 0;
  // Of those who asked for what waits: good where the credential of one stands, or nothing waits.
  // kDenied otherwise.
  [[nodiscard]] virtual Result<> someoneStands(const model::Escalation& e) const = 0;
  // As it is without the votes of revoked credentials; the ledger has that then. kPending: it waits
  // for others.
  virtual Task<Result<model::Escalation>> withStandingVotes(model::Escalation e) = 0;

  // Settle. Tells all that waits for it how it ended.
  virtual void settle(const model::Escalation& e) = 0;
  // The same for all that waits for any, by what the ledger has now.
  virtual void settleWaiting() = 0;
  // Ends it, where it is still open: nothing waits for it any more.
  virtual Task<void> closeEscalation(model::Escalation e) = 0;
  // Denies it for `why`: another effect than the approved one would run now.
  virtual Task<void> denyForEffect(model::Escalation e, std::string why) = 0;
};

}  // namespace cloister::orchestrator
