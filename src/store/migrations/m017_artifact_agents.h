// SPDX-License-Identifier: Apache-2.0
// Schema 17: artifacts and snapshots belong to the agent that made them.
#pragma once

namespace cloister::store {

// A run's artifacts belong to the run's agent, an upload to the uploader in the audit log. A
// snapshot belongs to the agent of its session, or to its maker if the session's record is gone.
inline constexpr char kArtifactAgents[] = R"sql(
ALTER TABLE artifacts ADD COLUMN agent TEXT NOT NULL DEFAULT '';
UPDATE artifacts SET agent=e.agent FROM executions e WHERE e.seq=artifacts.execution;
UPDATE artifacts SET agent=a.agent FROM audit a
  WHERE artifacts.execution IS NULL AND a.subject=artifacts.id AND a.agent<>''
    AND a.action IN ('artifact.created', 'snapshot.created');
UPDATE artifacts SET agent=s.agent FROM snapshots p JOIN sessions s
    ON s.id=json_extract(p.record, '$.session_id')
  WHERE p.id=artifacts.id;
CREATE INDEX artifacts_by_agent ON artifacts(tenant, agent, id);
)sql";

}  // namespace cloister::store
