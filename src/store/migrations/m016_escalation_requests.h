// SPDX-License-Identifier: Apache-2.0
// Schema 16: requests of escalations without an execution.
#pragma once

namespace cloister::store {

inline constexpr char kEscalationRequests[] = R"sql(
CREATE TABLE escalation_requests(
  escalation INTEGER PRIMARY KEY REFERENCES escalations(seq) ON DELETE CASCADE,
  encrypted  INTEGER NOT NULL,
  body       TEXT NOT NULL  -- canonical JSON
) STRICT;
CREATE INDEX escalation_requests_plain ON escalation_requests(escalation) WHERE encrypted=0;
)sql";

}  // namespace cloister::store
