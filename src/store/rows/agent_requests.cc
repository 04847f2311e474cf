// SPDX-License-Identifier: Apache-2.0
#include "store/agent_requests.h"

#include <algorithm>

#include "store/secret_store.h"
#include "store/sql/engine.h"

namespace cloister::store {
namespace {

// The columns for searching suffice: the record may be no longer legible.
constexpr char kOfAgent[] =
    "SELECT e.id, e.session_id, e.tenant, e.app, e.agent, e.user, r.execution IS NOT NULL,"
    " legible(r.encrypted, e.tenant, 'request ' || e.id, r.body) FROM executions e"
    " LEFT JOIN requests r ON r.execution=e.seq WHERE e.tenant=?1 AND e.agent=?2"
    " ORDER BY e.seq DESC LIMIT ?3";
constexpr uint32_t kMostOfAgent = 1000;
constexpr size_t kMostBytes = size_t{64} << 20;  // of their texts

Result<std::vector<AgentRequest>> listOfAgent(Database& db, const AgentName& agent,
                                              uint32_t limit) {
  Statement row = TRY(db.use(kOfAgent));
  row.bind(agent.tenant, agent.agent, std::clamp(limit, 1U, kMostOfAgent));
  std::vector<AgentRequest> found;
  size_t bytes = 0;
  while (bytes < kMostBytes && TRY(row.step())) {
    AgentRequest& made = found.emplace_back();
    made.execution = row.text(0);
    made.session_id = row.text(1);
    made.principal = {.tenant = row.text(2),
                      .app = row.text(3),
                      .agent = row.text(4),
                      .user = row.text(5),
                      .roles = model::Role::kAgent,
                      .key_id = {}};
    if (row.integer(6) != 0) made.request_json = row.text(7);
    if (made.request_json) bytes += made.request_json->size();
  }
  return found;
}

}  // namespace

Result<std::vector<AgentRequest>> agentRequests(Reads& ledger, const AgentName& agent,
                                                uint32_t limit) {
  return ledger.secrets().engine().read(
      "", [&](Database& db) { return listOfAgent(db, agent, limit); });
}

}  // namespace cloister::store
