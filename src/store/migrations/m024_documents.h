// SPDX-License-Identifier: Apache-2.0
// Schema 24: documents, the stored definitions of tools, servers and settings.
#pragma once

namespace cloister::store {

inline constexpr char kDocuments[] = R"sql(
CREATE TABLE documents(
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  tenant     TEXT NOT NULL,
  agent      TEXT NOT NULL,
  kind       TEXT NOT NULL,
  name       TEXT NOT NULL,
  version    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,  -- id of the credential
  updated_by TEXT NOT NULL,
  encrypted  INTEGER NOT NULL,
  body       BLOB NOT NULL   -- JSON
) STRICT;
CREATE UNIQUE INDEX documents_by_name ON documents(tenant, kind, name, agent);
CREATE INDEX documents_plain ON documents(seq) WHERE encrypted=0;
)sql";

}  // namespace cloister::store
