// SPDX-License-Identifier: Apache-2.0
// Schema 20: what the workspace had in it when an approval in a session was asked for.
#pragma once

namespace cloister::store {

inline constexpr char kEscalationWorkspaces[] = R"sql(
CREATE TABLE escalation_workspaces(
  escalation INTEGER PRIMARY KEY REFERENCES escalations(seq) ON DELETE CASCADE,
  encrypted  INTEGER NOT NULL,
  body       TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX escalation_workspaces_plain ON escalation_workspaces(escalation) WHERE encrypted=0;
)sql";

}  // namespace cloister::store
