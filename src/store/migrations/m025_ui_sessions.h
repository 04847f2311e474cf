// SPDX-License-Identifier: Apache-2.0
// Schema 25: people signed in to the web interface. Of a cookie the ledger has only the digest.
#pragma once

namespace cloister::store {

inline constexpr char kUiSessions[] = R"sql(
CREATE TABLE ui_sessions(
  id         TEXT PRIMARY KEY,
  sha256     TEXT NOT NULL UNIQUE,  -- of the cookie
  person     TEXT NOT NULL,         -- a key's id, or a digest of a provider's user
  issuer     TEXT NOT NULL,         -- the provider; '': signed in by a key
  credential TEXT NOT NULL,         -- a key's id, or the session's own
  tenant     TEXT NOT NULL,
  app        TEXT NOT NULL,
  agent      TEXT NOT NULL,
  user       TEXT NOT NULL,
  roles      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL,
  ends_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX ui_sessions_by_person ON ui_sessions(person, used_at);
CREATE INDEX ui_sessions_by_end ON ui_sessions(ends_at);
CREATE INDEX ui_sessions_by_use ON ui_sessions(used_at);
)sql";

}  // namespace cloister::store
