// SPDX-License-Identifier: Apache-2.0
// Schema 23: names of sessions. A name is unique among an agent's sessions that have not ended.
#pragma once

namespace cloister::store {

inline constexpr char kSessionNames[] = R"sql(
ALTER TABLE sessions ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_by_name ON sessions(name, tenant, agent, seq) WHERE name<>'';
)sql";

}  // namespace cloister::store
