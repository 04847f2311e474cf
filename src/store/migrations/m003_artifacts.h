// SPDX-License-Identifier: Apache-2.0
// Schema 3: artifacts stand for themselves, with their tenant, expiry and use of the quota.
#pragma once

namespace cloister::store {

inline constexpr char kArtifacts[] = R"sql(
-- What each tenant keeps; triggers hold it to the rows of `artifacts`.
CREATE TABLE artifact_usage(
  tenant    TEXT PRIMARY KEY,
  artifacts INTEGER NOT NULL,
  bytes     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Blobs that no artifact has any more, until they are known to be removed: a crash in between leaves
-- none lying about.
CREATE TABLE freed_blobs(
  tenant TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (tenant, sha256)
) STRICT, WITHOUT ROWID;
-- One row per artifact, of an execution or uploaded (then `execution` is NULL).
CREATE TABLE artifacts_2(
  id           TEXT PRIMARY KEY,
  execution    INTEGER REFERENCES executions(seq) ON DELETE CASCADE,
  tenant       TEXT NOT NULL,
  path         TEXT NOT NULL,
  size         INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  sha256       TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL  -- 0: never
) STRICT, WITHOUT ROWID;
CREATE TRIGGER artifact_is_counted AFTER INSERT ON artifacts_2 BEGIN
  INSERT OR IGNORE INTO artifact_usage VALUES (NEW.tenant, 0, 0);
  UPDATE artifact_usage SET artifacts=artifacts+1, bytes=bytes+min(NEW.size, 1 << 48)
    WHERE tenant=NEW.tenant;
END;
CREATE TRIGGER artifact_is_discounted AFTER DELETE ON artifacts_2 BEGIN
  UPDATE artifact_usage SET artifacts=artifacts-1, bytes=bytes-min(OLD.size, 1 << 48)
    WHERE tenant=OLD.tenant;
END;
INSERT INTO artifacts_2
  SELECT a.id, a.execution, e.tenant, coalesce(json_extract(r.value, '$.path'), 'output'),
         coalesce(json_extract(r.value, '$.size'), 0),
         coalesce(json_extract(r.value, '$.content_type'), 'application/octet-stream'),
         a.sha256, e.finished_at, 0
  FROM artifacts a JOIN executions e ON e.seq=a.execution
  LEFT JOIN json_each(e.record, '$.artifacts') r ON json_extract(r.value, '$.id')=a.id;
DROP TABLE artifacts;
ALTER TABLE artifacts_2 RENAME TO artifacts;
CREATE INDEX artifacts_by_execution ON artifacts(execution) WHERE execution IS NOT NULL;
CREATE INDEX artifacts_by_blob ON artifacts(tenant, sha256);
CREATE INDEX artifacts_by_tenant ON artifacts(tenant, id);
CREATE INDEX artifacts_by_expiry ON artifacts(expires_at) WHERE expires_at > 0;
)sql";

}  // namespace cloister::store
