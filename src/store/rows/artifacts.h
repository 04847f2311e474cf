// SPDX-License-Identifier: Apache-2.0
// The rows of artifacts. store.h documents the reads; times are wall-clock microseconds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// Stores an execution's artifacts at its end; the execution has no stored artifacts yet.
Result<> putArtifacts(Database& db, const model::Execution& execution);
// An upload and its audit row. kQuota if its tenant would keep more than `quota`.
Result<void> addArtifact(Transaction tx, const model::Artifact& artifact,
                         const model::ArtifactQuota& quota, const model::AuditEvent& event);
// Removes an artifact, with an audit row. Returns its blob for the caller to remove, if no other
// artifact names the blob. An execution's record still names its removed artifacts.
Result<std::vector<model::BlobName>> removeArtifact(Transaction tx, const Scope& scope,
                                                    const std::string& id,
                                                    const model::AuditEvent& event);
// All of a tenant's; gives their number.
Result<uint64_t> removeArtifacts(Transaction tx, const std::string& tenant,
                                 const model::AuditEvent& event);

Result<model::Artifact> getArtifact(Database& db, const Scope& scope, const std::string& id,
                                    int64_t now);
Result<std::vector<model::Artifact>> listArtifacts(Database& db, const Scope& scope,
                                                   const ArtifactQuery& query, int64_t now);
Result<model::ArtifactQuota> readArtifactUsage(Database& db, const std::string& tenant);
Result<bool> isBlobNamed(Database& db, const model::BlobName& blob);

// For retention. blobsOf() returns the blobs of an execution's artifacts; expireArtifacts() removes
// the rows of expired artifacts and returns their blobs.
Result<std::vector<model::BlobName>> blobsOf(Database& db, uint64_t execution);
Result<std::vector<model::BlobName>> expireArtifacts(Database& db, int64_t now, int most);
// Notes each blob of `blobs` without a row as free, and returns these blobs.
Result<std::vector<model::BlobName>> freeUnnamed(Database& db, std::vector<model::BlobName> blobs);
// Blobs noted as free and still free; drops the notes of the blobs in `removed`.
Result<std::vector<model::BlobName>> freedBlobs(Database& db,
                                                const std::vector<model::BlobName>& removed,
                                                int most);

}  // namespace cloister::store
