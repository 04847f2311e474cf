// SPDX-License-Identifier: Apache-2.0
// Agents' sandboxes and violations in the ledger. agent_store.h documents the reads.
#pragma once

#include <vector>

#include "store/agent_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Stores the sandbox as the version after `expected` (0: there is none yet) and gives it as stored.
// kConflict when another version is there; kQuota beyond `most` agents of the tenant.
Result<model::AgentSandbox> putAgent(Transaction tx, const Scope& scope,
                                     model::AgentSandbox sandbox, uint64_t expected, uint64_t most,
                                     const model::AuditEvent& event);
// Its violations stay.
Result<void> removeAgent(Transaction tx, const Scope& scope, const AgentName& name,
                         const model::AuditEvent& event);
// Records the violation with an audit row "agent.violation". If the agent has a sandbox, counts the
// violation there and lowers the level by the first applicable rule of `rules` ("agent.lowered", a
// separate row). A violation with the outcome Violation::kBoundary is not counted.
Result<AfterViolation> addViolation(Transaction tx, const model::Violation& violation,
                                    const std::vector<Lowering>& rules, const model::Principal& by);
Result<model::AgentSandbox> getAgent(Database& db, const Scope& scope, const AgentName& name);
Result<std::vector<model::AgentSandbox>> listAgents(Database& db, const Scope& scope,
                                                    const AgentQuery& query);
Result<std::vector<model::Violation>> listViolations(Database& db, const Scope& scope,
                                                     const ViolationQuery& query);
Result<std::vector<model::AuditEntry>> readAgentAudit(Database& db, const Scope& scope,
                                                      const AgentAuditQuery& query);
Result<AgentStats> readAgentStats(Database& db, const Scope& scope, const AgentName& name);

}  // namespace cloister::store
