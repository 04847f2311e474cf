// SPDX-License-Identifier: Apache-2.0
// The ledger's part for agents: their sandboxes, and their violations. Each change and its audit
// row are one transaction. Threads, `done` and durability as in store.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/agent_sandbox.h"
#include "model/audit_entry.h"
#include "store/store.h"

namespace cloister::store {

// An agent's name. Queries find only agents within a Scope, also if the name has another tenant.
struct AgentName {
  std::string tenant;
  std::string agent;
};

// "agent:TENANT/NAME": the subject of audit rows about its sandbox. A / or % of the tenant's name
// is written as in URLs.
std::string agentSubject(const AgentName& name);

// When an agent's level is lowered: so many violations within a time, at the level `from`.
struct Lowering {
  std::string from;
  std::string to;
  uint32_t after = 1;
  int64_t within_us = 0;
  std::string why;
};

// Result of a violation: the present sandbox, if the agent has a sandbox.
struct AfterViolation {
  std::optional<model::AgentSandbox> sandbox;
  std::string lowered_from;  // the level before, "" if unchanged
};

struct AgentQuery {
  uint32_t limit = 50;      // 1..500
  std::string tenant = {};  // "": of every tenant within the scope
  AgentName after = {};     // in the order of tenant and name; empty: from the first
};

struct ViolationQuery {
  AgentName of;
  uint32_t limit = 50;      // 1..500
  uint64_t before_seq = 0;  // 0: from the newest
};

struct AgentAuditQuery {
  AgentName of;
  int64_t since = 0;        // wall-clock microseconds
  uint32_t limit = 50;      // 1..500
  uint64_t before_seq = 0;  // position; 0: from the newest
};

// An agent's activity, as far as records are kept.
struct AgentStats {
  std::map<std::string, uint64_t> executions;  // by status
  uint64_t sessions = 0;
  uint64_t violations = 0;
  int64_t last_violation = 0;  // wall-clock microseconds; 0: none
};

class AgentStore {
 public:
  explicit AgentStore(Engine& engine) : engine_(engine) {}

  // kNotFound for an agent that is missing or beyond `scope`.
  Result<model::AgentSandbox> sandbox(const Scope& scope, const AgentName& name);
  Result<std::vector<model::AgentSandbox>> sandboxes(const Scope& scope, const AgentQuery& query);
  // Newest first.
  Result<std::vector<model::Violation>> violations(const Scope& scope, const ViolationQuery& query);
  // Actions on the agent and by the agent, newest first.
  Result<std::vector<model::AuditEntry>> audit(const Scope& scope, const AgentAuditQuery& query);
  Result<AgentStats> stats(const Scope& scope, const AgentName& name);

 private:
  Engine& engine_;
};

}  // namespace cloister::store
