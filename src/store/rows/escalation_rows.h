// SPDX-License-Identifier: Apache-2.0
// The rows of escalations. escalations.h documents the reads.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/escalations.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// Makes an escalation with its audit row and notifications; kQuota beyond its bounds.
Result<model::Escalation> addEscalation(Transaction tx, const NewEscalation& asked);
// kNotFound for none. Allows only the changes of model::mayBecome(); kConflict otherwise.
Result<model::Escalation> changeEscalation(Transaction tx, const EscalationChange& change);
// Both or neither: `change`, and the execution moved as by updateExecution().
Result<model::Escalation> changeEscalationWith(Transaction tx, const EscalationChange& change,
                                               const model::Execution& execution,
                                               const model::AuditEvent& event);
// Replaces the agent's policy.
Result<void> putEscalationPolicy(Transaction tx, const std::string& tenant,
                                 const model::EscalationPolicy& policy,
                                 const model::AuditEvent& event);
// Removes a delivered or abandoned notification (`event`: an optional audit row).
Result<void> finishNotification(Transaction tx, uint64_t seq,
                                const std::optional<model::AuditEvent>& event);
// Another attempt was made; the next is due then.
Result<void> retryNotification(Transaction tx, uint64_t seq, int64_t due_at);
// Drops escalations that ended up to `before`; returns their number.
Result<uint64_t> dropEscalations(Database& db, int64_t before, uint64_t limit);

Result<model::Escalation> getEscalation(Database& db, const Scope& scope, const std::string& id);
Result<std::vector<model::Escalation>> listEscalations(Database& db, const Scope& scope,
                                                       const EscalationQuery& query);
Result<std::map<model::EscalationStatus, uint64_t>> countEscalations(Database& db);
Result<std::optional<model::Escalation>> escalationOfExecution(Database& db, const Scope& scope,
                                                               const std::string& execution_id);
Result<std::optional<int64_t>> usualWait(Database& db, const Scope& scope);
Result<model::EscalationPolicy> getEscalationPolicy(Database& db, const std::string& tenant,
                                                    const std::string& agent);
Result<std::vector<model::Escalation>> dueEscalationRows(Database& db, int64_t now, uint32_t limit);
Result<std::vector<Notification>> dueNotificationRows(Database& db, const std::string& channel,
                                                      int64_t now, uint32_t limit);
Result<std::string> getEscalationRequest(Database& db, const model::Escalation& e);
Result<std::string> getEscalationWorkspace(Database& db, const model::Escalation& e);
Result<Pending> getPending(Database& db, const Scope& scope, const std::string& execution_id);

}  // namespace cloister::store
