// SPDX-License-Identifier: Apache-2.0
// Schema: quotas of tenants and agents.
#pragma once

namespace cloister::store {

inline constexpr char kQuotas[] = R"sql(
CREATE TABLE quotas(
  tenant TEXT NOT NULL,
  agent  TEXT NOT NULL,  -- '' for the tenant's own
  record TEXT NOT NULL,  -- its values, as JSON
  PRIMARY KEY (tenant, agent)
) STRICT, WITHOUT ROWID;
)sql";

}  // namespace cloister::store
