// SPDX-License-Identifier: Apache-2.0
// The rows of snapshots. See store.h for each; times are wall-clock microseconds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/snapshot.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// Adds a snapshot and its audit row; returns the snapshot with its added bytes. The snapshot's
// manifest is an artifact, but Store::artifact() and Store::artifacts() do not show manifests.
// Chunks of the tenant's other snapshots count once. kQuota beyond `quota`.
Result<model::Snapshot> addSnapshot(Transaction tx, const NewSnapshot& made,
                                    const model::SnapshotQuota& quota, model::AuditEvent event);
// As removeArtifact(): returns the unused blobs.
Result<std::vector<model::BlobName>> removeSnapshot(Transaction tx, const Scope& scope,
                                                    const std::string& id,
                                                    const model::AuditEvent& event);
// Notes a blob before its write: retain() returns the blob for removal if no row names the blob.
Result<void> noteBlob(Transaction tx, const model::BlobName& blob);

Result<model::Snapshot> getSnapshot(Database& db, const Scope& scope, const std::string& id,
                                    int64_t now);
Result<std::vector<model::Snapshot>> listSnapshots(Database& db, const Scope& scope,
                                                   const ArtifactQuery& query, int64_t now);
Result<uint64_t> countSnapshots(Database& db, const std::string& tenant);

}  // namespace cloister::store
