// SPDX-License-Identifier: Apache-2.0
// The audit rows of doors. Pure. Hosts and reasons come from cloister-egress, which repeats names
// that hostile programs chose, so they are made safe to print.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/audit_entry.h"
#include "model/network.h"
#include "orchestrator/core/network.h"
#include "wire/egress.h"

namespace cloister::orchestrator {

// The owner of a permit's door; null: unknown.
using OwnerOf = std::function<const DoorOwner*(const std::string& permit)>;

inline constexpr size_t kAttemptsOfRow = 64;

// "network.attempts": a row for each door and at most kAttemptsOfRow attempts. The attempts left
// out of the batch are counted in its first row. Empty for a batch without attempts.
std::vector<model::AuditEvent> attemptEvents(const wire::egress::Batch& batch,
                                             const OwnerOf& owner_of);

// The action of attemptEvents()'s rows, and the number of the batch that such a row is of; 0 for a
// row without one, as after a redaction.
inline constexpr char kAttemptsAction[] = "network.attempts";
uint64_t batchOf(const model::AuditEvent& event);

// "network.planned": a later plan of a door, by its digest. `why`: "policy" or "approval".
model::AuditEvent plannedEvent(const DoorOwner& owner, const model::NetworkPlan& plan,
                               std::string_view why);

// Hex digest of the encoded plan, as in permits.
std::string digestOf(const model::NetworkPlan& plan);

}  // namespace cloister::orchestrator
