// SPDX-License-Identifier: Apache-2.0
// Schema: sandboxes of agents and their violations.
#pragma once

namespace cloister::store {

inline constexpr char kAgents[] = R"sql(
CREATE TABLE agent_sandboxes(
  tenant  TEXT NOT NULL,
  agent   TEXT NOT NULL,
  version INTEGER NOT NULL,
  record  TEXT NOT NULL,  -- all of it, as JSON
  PRIMARY KEY (tenant, agent)
) STRICT, WITHOUT ROWID;
CREATE TABLE violations(
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  id        TEXT NOT NULL UNIQUE,
  tenant    TEXT NOT NULL,
  agent     TEXT NOT NULL,
  at        INTEGER NOT NULL,
  level     TEXT NOT NULL,
  operation TEXT NOT NULL,
  what      TEXT NOT NULL,
  outcome   TEXT NOT NULL,
  rule      TEXT NOT NULL,
  reason    TEXT NOT NULL,
  words     TEXT NOT NULL,
  subject   TEXT NOT NULL
) STRICT;
CREATE INDEX violations_by_agent ON violations(tenant, agent, seq);
CREATE INDEX violations_by_time ON violations(tenant, agent, at);
CREATE INDEX audit_by_agent ON audit(tenant, agent, seq) WHERE agent <> '';
CREATE INDEX audit_about_agents ON audit(subject, seq) WHERE action LIKE 'agent.%';
)sql";

}  // namespace cloister::store
