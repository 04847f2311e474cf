// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/guard/votes.h"

#include <utility>

#include "orchestrator/guard/approval.h"
#include "policy/approval.h"
#include "store/agent_store.h"

namespace cloister::orchestrator {

Result<std::set<std::string>> revokedOf(store::Store& store, const model::Escalation& e) {
  std::set<std::string> revoked;
  for (const model::EscalationDecision& each : e.decisions) {
    const std::string& credential = each.by.key_id;
    const bool counts = each.approve && !each.revoked && !credential.empty();
    if (counts && TRY(store::isRevoked(store, credential))) revoked.insert(credential);
  }
  return revoked;
}

Result<> strikeRevoked(store::Store& store, model::Escalation& e) {
  policy::strike(e, TRY(revokedOf(store, e)));
  return {};
}

// A temporary permission began with its approval: votes for it are judged no more.
Result<> strikeIfOpen(store::Store& store, model::Escalation& e) {
  const bool lets_go_on =
      e.operation == model::operation::kRun || e.operation == model::operation::kSession;
  const bool open = e.status == model::EscalationStatus::kPending ||
                    (e.status == model::EscalationStatus::kApproved && lets_go_on);
  return open ? strikeRevoked(store, e) : Result<>{};
}

Result<> requesterStands(store::Store& store, const model::Principal& requester) {
  const auto holds = store::stillHolds(store, requester);
  if (holds || holds.error().code != Code::kDenied) return holds;
  return fail(Code::kDenied,
              "the credential that asked for it, " + requester.key_id +
                  ", was revoked or has expired; ask anew with another credential",
              std::string(policy::approval::kRequester));
}

model::RunError notApprovedFor(store::Store& store, const model::Principal& requester,
                               const model::Escalation& e) {
  model::RunError error = notApproved(e);
  const bool by_service = e.status == model::EscalationStatus::kDenied && !e.decisions.empty() &&
                          e.decisions.back().automatic;
  if (!by_service) return error;
  const auto stands = requesterStands(store, requester);
  if (!stands && stands.error().field == policy::approval::kRequester)
    error.details["reason"] = policy::approval::kRequester;
  return error;
}

}  // namespace cloister::orchestrator
