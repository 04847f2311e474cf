// SPDX-License-Identifier: Apache-2.0
// Schema: API keys with roles, permitted addresses, and their last use.
#pragma once

namespace cloister::store {

inline constexpr char kKeyRoles[] = R"sql(
ALTER TABLE api_keys ADD COLUMN roles TEXT NOT NULL DEFAULT 'agent';     -- names, with spaces between
ALTER TABLE api_keys ADD COLUMN networks TEXT NOT NULL DEFAULT '';       -- CIDR, with spaces between
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0; -- roughly; 0: never
ALTER TABLE api_keys ADD COLUMN replaces TEXT NOT NULL DEFAULT '';       -- the key that this succeeds
UPDATE api_keys SET roles='admin' WHERE admin<>0;
ALTER TABLE api_keys DROP COLUMN admin;
CREATE INDEX api_keys_by_tenant ON api_keys(tenant, created_at, id);
)sql";

}  // namespace cloister::store
