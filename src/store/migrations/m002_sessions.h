// SPDX-License-Identifier: Apache-2.0
// Schema 2: sessions.
#pragma once

namespace cloister::store {

inline constexpr char kSessions[] = R"sql(
-- One row per session; `record` and the other columns as in executions.
CREATE TABLE sessions(
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE,
  status          TEXT NOT NULL,
  tenant          TEXT NOT NULL,
  app             TEXT NOT NULL,
  agent           TEXT NOT NULL,
  user            TEXT NOT NULL,
  idempotency_key TEXT,
  ended_at        INTEGER NOT NULL,
  created_row     INTEGER NOT NULL,  -- audit.seq of its creation
  state_row       INTEGER NOT NULL,  -- audit.seq of its present state
  record          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_idempotency_key
  ON sessions(tenant, app, agent, user, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX sessions_by_status ON sessions(tenant, status, seq);
CREATE INDEX sessions_by_agent ON sessions(tenant, agent, seq);
CREATE INDEX sessions_unfinished ON sessions(seq) WHERE ended_at = 0;
CREATE INDEX sessions_ended ON sessions(ended_at, seq) WHERE ended_at > 0;
)sql";

}  // namespace cloister::store
