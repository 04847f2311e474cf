// SPDX-License-Identifier: Apache-2.0
// Schema 20: the workspace's content at the request of an approval in a session.
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
