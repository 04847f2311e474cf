// SPDX-License-Identifier: Apache-2.0
// Votes and requests count as long as their credential stands. A revoked credential takes its votes
// and requests along. Reads the ledger. One thread.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "model/escalation.h"
#include "model/execution.h"
#include "model/principal.h"
#include "store/store.h"

namespace cloister::orchestrator {

// Of those who approved: the credentials that are revoked.
Result<std::set<std::string>> revokedOf(store::Store& store, const model::Escalation& e);
// Their votes do not count in `e`.
Result<> strikeRevoked(store::Store& store, model::Escalation& e);
// As the next vote would find it: an open one is shown so, before the ledger has that.
Result<> strikeIfOpen(store::Store& store, model::Escalation& e);

// Whether the credential of the requester stands. kDenied, with the reason in `field`.
Result<> requesterStands(store::Store& store, const model::Principal& requester);
// notApproved(), for what `requester` asked for. The service denies what nobody could use.
model::RunError notApprovedFor(store::Store& store, const model::Principal& requester,
                               const model::Escalation& e);

}  // namespace cloister::orchestrator
