// SPDX-License-Identifier: Apache-2.0
// BlobKeeper: keeps blobs and the records that name them consistent. A blob exists before the first
// record names the blob, and goes after the last record; in between, the keeper holds the blob. For
// RunService and ArtifactService, on their executor.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "artifacts/blobs.h"
#include "store/store.h"

namespace cloister::orchestrator {

class BlobKeeper {
 public:
  // Settles blobs whose naming was interrupted by a crash.
  static Result<BlobKeeper> open(store::Store& store, artifacts::Blobs& blobs);

  [[nodiscard]] artifacts::Blobs& blobs() const { return blobs_; }
  // A record with the blob's name is on its way to the ledger.
  void hold(model::BlobName blob) { held_.insert(std::move(blob)); }
  // The record exists, or will never exist: then `named` is false, and the blob goes unless another
  // record names the blob.
  void release(const model::BlobName& blob, bool named);
  // Between these two calls no blob is removed, because a blob being finished has no name to hold
  // yet.
  void beginNaming() { naming_++; }
  void endNaming();
  // Removes blobs that no record names according to the ledger, except held blobs; gives the
  // removed.
  std::vector<model::BlobName> remove(const std::vector<model::BlobName>& blobs);

  // Counts a tenant's kept blobs that no record names yet, such as interrupted uploads.
  void countUnnamed(const std::string& tenant, model::ArtifactQuota kept);
  [[nodiscard]] model::ArtifactQuota unnamed(const std::string& tenant) const;
  // The rest of `quota` for the ledger to give.
  [[nodiscard]] model::ArtifactQuota without(const std::string& tenant,
                                             model::ArtifactQuota quota) const;

 private:
  BlobKeeper(store::Store& store, artifacts::Blobs& blobs) : store_(store), blobs_(blobs) {}

  store::Store& store_;
  artifacts::Blobs& blobs_;
  std::multiset<model::BlobName> held_;
  size_t naming_ = 0;
  std::set<model::BlobName> later_;                      // to remove once naming_ is 0
  std::map<std::string, model::ArtifactQuota> unnamed_;  // by tenant
};

}  // namespace cloister::orchestrator
