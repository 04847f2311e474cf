// SPDX-License-Identifier: Apache-2.0
// Schema 21: secrets of tenants.
#pragma once

namespace cloister::store {

// A deleted secret keeps its row without a value, so that versions never repeat.
inline constexpr char kSecrets[] = R"sql(
CREATE TABLE secrets(
  tenant       TEXT NOT NULL,
  name         TEXT NOT NULL,
  version      INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,  -- of the first version
  updated_at   INTEGER NOT NULL,  -- of this version
  updated_by   TEXT NOT NULL,     -- id of the credential
  expires_at   INTEGER NOT NULL,  -- 0: never
  last_used_at INTEGER NOT NULL,  -- 0: never
  deleted_at   INTEGER NOT NULL,  -- 0: it is there
  encrypted    INTEGER NOT NULL,
  value        BLOB NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT;
CREATE INDEX secrets_plain ON secrets(tenant, name) WHERE encrypted=0;
)sql";

}  // namespace cloister::store
