// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cloister::store {

inline constexpr char kEscalationRows[] = R"sql(
-- Which audit rows tell of an escalation's beginning and of its present record, as executions and
-- sessions have it. Those that are there are looked up once: each row of one carries the digest of
-- its record, and the tenant that the number is of. The index stays: that a record is the newest
-- which the log knows shows that nobody put an approval back that was used.
ALTER TABLE escalations ADD COLUMN created_row INTEGER NOT NULL DEFAULT 0;  -- audit.seq
ALTER TABLE escalations ADD COLUMN state_row INTEGER NOT NULL DEFAULT 0;    -- audit.seq
CREATE INDEX audit_of_escalations ON audit(subject, seq) WHERE action LIKE 'escalation.%';
UPDATE escalations SET (created_row, state_row) =
  (SELECT ifnull(min(seq), 0), ifnull(max(seq), 0) FROM audit
   WHERE subject=escalations.id AND action LIKE 'escalation.%'
     AND json_extract(details, '$.of_tenant')=escalations.tenant
     AND json_extract(details, '$.record_sha256') IS NOT NULL);
)sql";

}  // namespace cloister::store
