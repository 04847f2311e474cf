// SPDX-License-Identifier: Apache-2.0
// Schema 1. Never edit a released migration: add the next migration (see schema.h).
#pragma once

namespace cloister::store {

inline constexpr char kInitial[] = R"sql(
-- One row per accepted request. `record` is the whole of it as JSON and what the audit log has the
-- digest of; the other columns are copies to search by.
CREATE TABLE executions(
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE,
  status          TEXT NOT NULL,
  tenant          TEXT NOT NULL,
  app             TEXT NOT NULL,
  agent           TEXT NOT NULL,
  user            TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  idempotency_key TEXT,
  request_sha256  TEXT NOT NULL,
  finished_at     INTEGER NOT NULL,
  archived_at     INTEGER NOT NULL DEFAULT 0,
  accepted_row    INTEGER NOT NULL,  -- audit.seq of its acceptance
  state_row       INTEGER NOT NULL,  -- audit.seq of its present state
  record          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX executions_by_idempotency_key
  ON executions(tenant, app, agent, user, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_by_status ON executions(tenant, status, seq);
CREATE INDEX executions_by_agent ON executions(tenant, agent, seq);
CREATE INDEX executions_by_session ON executions(session_id, seq) WHERE session_id <> '';
CREATE INDEX executions_unfinished ON executions(seq) WHERE finished_at = 0;
CREATE INDEX executions_finished ON executions(finished_at, seq) WHERE finished_at > 0;
CREATE INDEX executions_unarchived ON executions(finished_at, seq)
  WHERE finished_at > 0 AND archived_at = 0;

-- The request as asked; goes when the execution is archived.
CREATE TABLE requests(
  execution INTEGER PRIMARY KEY REFERENCES executions(seq) ON DELETE CASCADE,
  body      TEXT NOT NULL
) STRICT;
-- What the node is to run; goes when the execution has ended.
CREATE TABLE specs(
  execution INTEGER PRIMARY KEY REFERENCES executions(seq) ON DELETE CASCADE,
  spec      BLOB NOT NULL
) STRICT;
-- Kept output; goes when the execution is archived.
CREATE TABLE outputs(
  execution   INTEGER PRIMARY KEY REFERENCES executions(seq) ON DELETE CASCADE,
  out         BLOB NOT NULL,
  err         BLOB NOT NULL,
  compile_out BLOB NOT NULL,
  compile_err BLOB NOT NULL
) STRICT;
-- Where each artifact is described, and which blobs are in use.
CREATE TABLE artifacts(
  id        TEXT PRIMARY KEY,
  execution INTEGER NOT NULL REFERENCES executions(seq) ON DELETE CASCADE,
  sha256    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_by_execution ON artifacts(execution);
CREATE INDEX artifacts_by_sha256 ON artifacts(sha256);

-- The hash chain; docs/AUDIT.md.
CREATE TABLE audit(
  seq     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  action  TEXT NOT NULL,
  subject TEXT NOT NULL,
  tenant  TEXT NOT NULL,
  app     TEXT NOT NULL,
  agent   TEXT NOT NULL,
  user    TEXT NOT NULL,
  key_id  TEXT NOT NULL,
  details TEXT NOT NULL,  -- canonical JSON
  prev    TEXT NOT NULL,
  hash    TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_tenant ON audit(tenant, seq);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- The signed head of the chain: the one row says where the log ends.
CREATE TABLE audit_head(
  only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
  seq       INTEGER NOT NULL,
  hash      TEXT NOT NULL,
  at        INTEGER NOT NULL,
  key_id    TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;

CREATE TABLE api_keys(
  id         TEXT PRIMARY KEY,
  sha256     TEXT NOT NULL UNIQUE,
  name       TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  app        TEXT NOT NULL,
  agent      TEXT NOT NULL,
  user       TEXT NOT NULL,
  admin      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Written to find out whether a ledger that failed can be written again.
CREATE TABLE probe(only_row INTEGER PRIMARY KEY CHECK (only_row = 1), written INTEGER NOT NULL) STRICT;
INSERT INTO probe VALUES (1, 0);
)sql";

}  // namespace cloister::store
