// SPDX-License-Identifier: Apache-2.0
// Schema: escalations, escalation policies of agents, and pending notifications.
#pragma once

namespace cloister::store {

inline constexpr char kEscalations[] = R"sql(
-- One row per escalation; `record` has all of it, the other columns are for finding it.
CREATE TABLE escalations(
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  status     TEXT NOT NULL,
  agent      TEXT NOT NULL,
  execution  TEXT NOT NULL,     -- '' if none
  due_at     INTEGER NOT NULL,  -- its status changes by itself then; 0: never
  waited     INTEGER,           -- microseconds from request to a person's decision
  ended_at   INTEGER NOT NULL,
  record     TEXT NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX escalations_by_id ON escalations(id);
CREATE INDEX escalations_by_status ON escalations(tenant, status, seq);
CREATE INDEX escalations_by_agent ON escalations(tenant, agent, seq);
CREATE INDEX escalations_by_execution ON escalations(execution) WHERE execution <> '';
CREATE INDEX escalations_due ON escalations(due_at) WHERE due_at > 0;
CREATE INDEX escalations_ended ON escalations(ended_at, seq) WHERE ended_at > 0;
-- The last number of each tenant and year: one that was given is never given again.
CREATE TABLE escalation_numbers(
  tenant TEXT NOT NULL,
  year   INTEGER NOT NULL,
  last   INTEGER NOT NULL,
  PRIMARY KEY (tenant, year)
) STRICT, WITHOUT ROWID;
CREATE TABLE escalation_policies(
  tenant TEXT NOT NULL,
  agent  TEXT NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (tenant, agent)
) STRICT, WITHOUT ROWID;
-- What is still to be told: one row per channel, until it was delivered or given up.
CREATE TABLE notifications(
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  channel    TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  escalation TEXT NOT NULL,
  event      TEXT NOT NULL,
  attempts   INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  due_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX notifications_due ON notifications(due_at, seq);
)sql";

}  // namespace cloister::store
