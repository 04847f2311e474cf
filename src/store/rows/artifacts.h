// SPDX-License-Identifier: Apache-2.0
// The rows of artifacts. store.h tells of the reads; times are wall-clock microseconds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// Those of an execution, which has none yet: they come with its end.
Result<> putArtifacts(Database& db, const model::Execution& execution);
// An upload and its audit row. kQuota if its tenant would keep more than `quota`.
Result<void> addArtifact(Transaction tx, const model::Artifact& artifact,
                         const model::ArtifactQuota& quota, const model::AuditEvent& event);
// Removes one, with an audit row; gives its blob if no artifact has it any more, for the caller to
// remove. An execution's record goes on naming its artifacts.
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

// For retention: the blobs of an execution's artifacts; what expired, as blobs, with its rows
// removed.
Result<std::vector<model::BlobName>> blobsOf(Database& db, uint64_t execution);
Result<std::vector<model::BlobName>> expireArtifacts(Database& db, int64_t now, int most);
// Notes those of `blobs` that no row names as free, and gives them.
Result<std::vector<model::BlobName>> freeUnnamed(Database& db, std::vector<model::BlobName> blobs);
// Those noted as free that still are; those in `removed` are no longer noted.
Result<std::vector<model::BlobName>> freedBlobs(Database& db,
                                                const std::vector<model::BlobName>& removed,
                                                int most);

}  // namespace cloister::store
