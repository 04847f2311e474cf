// SPDX-License-Identifier: Apache-2.0
// Schema 18: entries of the audit log are numbered within their tenant.
#pragma once

namespace cloister::store {

// `seq` stays the position in the whole log, as every other table has it. An entry of before has no
// `number`: its position is its number. So no row of the log is changed by the migration.
inline constexpr char kNumbers[] = R"sql(
ALTER TABLE audit ADD COLUMN number INTEGER;
DROP INDEX audit_by_tenant;
CREATE UNIQUE INDEX audit_by_number ON audit(tenant, ifnull(number, seq));
)sql";

}  // namespace cloister::store
