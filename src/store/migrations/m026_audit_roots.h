// SPDX-License-Identifier: Apache-2.0
// Schema 26: signed roots over periods of the audit log (model/inclusion_proof.h).
#pragma once

namespace cloister::store {

// A period's entries are those at the positions first_row to last_row; there is none where last_row
// is first_row - 1. The secret is of the service alone.
inline constexpr char kAuditRoots[] = R"sql(
CREATE TABLE audit_roots(
  number    INTEGER PRIMARY KEY,
  begins    INTEGER NOT NULL,
  ends      INTEGER NOT NULL,
  first_row INTEGER NOT NULL,
  last_row  INTEGER NOT NULL,
  secret    TEXT NOT NULL,
  root      TEXT NOT NULL,
  log       TEXT NOT NULL,
  prev      TEXT NOT NULL,
  key_id    TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;
CREATE INDEX audit_roots_by_row ON audit_roots(last_row, number);
)sql";

}  // namespace cloister::store
