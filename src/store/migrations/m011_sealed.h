// SPDX-License-Identifier: Apache-2.0
// Schema: sealed texts of the audit log.
#pragma once

namespace cloister::store {

inline constexpr char kSealed[] = R"sql(
-- Beside the log, so that it can be forgotten without a change of the log (docs/AUDIT.md).
CREATE TABLE audit_sealed(
  seq   INTEGER NOT NULL REFERENCES audit(seq),
  name  TEXT NOT NULL,
  salt  TEXT NOT NULL,
  value TEXT NOT NULL,  -- canonical JSON
  PRIMARY KEY (seq, name)
) STRICT, WITHOUT ROWID;
)sql";

}  // namespace cloister::store
