// SPDX-License-Identifier: Apache-2.0
// Schema: encryption under the tenant's key (store/sql/encryption.h).
#pragma once

namespace cloister::store {

// Older rows are encrypted after the migration, in steps. `owed` is set until all rows are
// encrypted and their plain text is gone from the file.
inline constexpr char kEncrypted[] = R"sql(
ALTER TABLE executions ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE specs ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outputs ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE violations ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE escalations ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_sealed ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX executions_plain ON executions(seq) WHERE encrypted=0;
CREATE INDEX requests_plain ON requests(execution) WHERE encrypted=0;
CREATE INDEX specs_plain ON specs(execution) WHERE encrypted=0;
CREATE INDEX outputs_plain ON outputs(execution) WHERE encrypted=0;
CREATE INDEX sessions_plain ON sessions(seq) WHERE encrypted=0;
CREATE INDEX violations_plain ON violations(seq) WHERE encrypted=0;
CREATE INDEX escalations_plain ON escalations(seq) WHERE encrypted=0;
CREATE INDEX audit_sealed_plain ON audit_sealed(seq, name) WHERE encrypted=0;
CREATE TABLE encryption(only_row INTEGER PRIMARY KEY CHECK (only_row = 1), owed INTEGER NOT NULL) STRICT;
INSERT INTO encryption SELECT 1, EXISTS (SELECT 1 FROM executions) OR EXISTS (SELECT 1 FROM sessions)
  OR EXISTS (SELECT 1 FROM violations) OR EXISTS (SELECT 1 FROM escalations)
  OR EXISTS (SELECT 1 FROM audit);
)sql";

}  // namespace cloister::store
