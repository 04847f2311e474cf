// SPDX-License-Identifier: Apache-2.0
// Schema: the memory of sessions.
#pragma once

namespace cloister::store {

// The value is the last column, so that summing sizes reads no values.
inline constexpr char kSessionMemory[] = R"sql(
CREATE TABLE session_memory(
  session    INTEGER NOT NULL REFERENCES sessions(seq) ON DELETE CASCADE,
  key        TEXT NOT NULL,
  size       INTEGER NOT NULL,  -- of the value in plain, in bytes
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  encrypted  INTEGER NOT NULL,
  value      BLOB NOT NULL,     -- JSON as it was given
  PRIMARY KEY (session, key)
) STRICT;
CREATE INDEX session_memory_plain ON session_memory(session, key) WHERE encrypted=0;
)sql";

}  // namespace cloister::store
