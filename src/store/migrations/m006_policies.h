// SPDX-License-Identifier: Apache-2.0
// Schema 6: versions of the policy document. The newest version is in force.
#pragma once

namespace cloister::store {

inline constexpr char kPolicies[] = R"sql(
CREATE TABLE policies(
  version    INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, though old ones are dropped
  name       TEXT NOT NULL,
  sha256     TEXT NOT NULL,    -- of the document, hex
  document   BLOB NOT NULL,    -- as it was given, byte for byte
  origin     TEXT NOT NULL,    -- 'start': the file that the service was started with; 'api'
  tenant     TEXT NOT NULL,    -- who applied it
  app        TEXT NOT NULL,
  agent      TEXT NOT NULL,
  user       TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  applied_at INTEGER NOT NULL, -- wall-clock microseconds
  note       TEXT NOT NULL,
  restores   INTEGER NOT NULL  -- the version that this one takes up again; 0: none
) STRICT;
)sql";

}  // namespace cloister::store
