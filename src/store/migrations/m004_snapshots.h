// SPDX-License-Identifier: Apache-2.0
// Schema 4: snapshots. A snapshot is an artifact (its manifest, under the snapshot's id) with
// chunks.
#pragma once

namespace cloister::store {

inline constexpr char kSnapshots[] = R"sql(
-- One row per snapshot, beside the row of its manifest in `artifacts`, with which it goes.
CREATE TABLE snapshots(
  id     TEXT PRIMARY KEY REFERENCES artifacts(id) ON DELETE CASCADE,
  tenant TEXT NOT NULL,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshots_by_tenant ON snapshots(tenant, id);
-- Which chunks each uses.
CREATE TABLE snapshot_chunks(
  snapshot TEXT NOT NULL REFERENCES snapshots(id) ON DELETE CASCADE,
  tenant   TEXT NOT NULL,
  sha256   TEXT NOT NULL,
  size     INTEGER NOT NULL,
  PRIMARY KEY (snapshot, sha256)
) STRICT, WITHOUT ROWID;
-- The chunks of a tenant, each once however many snapshots use it; triggers keep the count, the use
-- of the quota, and the note that nothing uses a blob any more.
CREATE TABLE chunks(
  tenant    TEXT NOT NULL,
  sha256    TEXT NOT NULL,
  size      INTEGER NOT NULL,
  snapshots INTEGER NOT NULL,
  PRIMARY KEY (tenant, sha256)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER chunk_is_used AFTER INSERT ON snapshot_chunks BEGIN
  INSERT INTO chunks VALUES (NEW.tenant, NEW.sha256, NEW.size, 1)
    ON CONFLICT(tenant, sha256) DO UPDATE SET snapshots=snapshots+1;
END;
CREATE TRIGGER chunk_is_left AFTER DELETE ON snapshot_chunks BEGIN
  UPDATE chunks SET snapshots=snapshots-1 WHERE tenant=OLD.tenant AND sha256=OLD.sha256;
  DELETE FROM chunks WHERE tenant=OLD.tenant AND sha256=OLD.sha256 AND snapshots<=0;
END;
CREATE TRIGGER chunk_is_counted AFTER INSERT ON chunks BEGIN
  INSERT OR IGNORE INTO artifact_usage VALUES (NEW.tenant, 0, 0);
  UPDATE artifact_usage SET bytes=bytes+NEW.size WHERE tenant=NEW.tenant;
END;
CREATE TRIGGER chunk_is_discounted AFTER DELETE ON chunks BEGIN
  UPDATE artifact_usage SET bytes=bytes-OLD.size WHERE tenant=OLD.tenant;
  INSERT OR IGNORE INTO freed_blobs VALUES (OLD.tenant, OLD.sha256);
END;
)sql";

}  // namespace cloister::store
