// SPDX-License-Identifier: Apache-2.0
// BlobKeeper: blobs and the records that name them, held together. A blob is there before a record
// names it and goes after no record does; in between, it is held. For RunService and
// ArtifactService, on their executor.
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
  // Settles what a crash left of blobs that were being named.
  static Result<BlobKeeper> open(store::Store& store, artifacts::Blobs& blobs);

  [[nodiscard]] artifacts::Blobs& blobs() const { return blobs_; }
  // A record that names it is on its way to the ledger.
  void hold(model::BlobName blob) { held_.insert(std::move(blob)); }
  // That record is there, or will never be: then `named` is false, and the blob goes unless another
  // record names it.
  void release(const model::BlobName& blob, bool named);
  // Between these two nothing is removed, for a blob that is being finished has no name to hold
  // yet.
  void beginNaming() { naming_++; }
  void endNaming();
  // Removes those that the ledger has just said no record names, but none that is held; gives those
  // that are gone.
  std::vector<model::BlobName> remove(const std::vector<model::BlobName>& blobs);

  // What a tenant has that no record names yet, and will for a while: it counts all the same.
  void countUnnamed(const std::string& tenant, model::ArtifactQuota kept);
  [[nodiscard]] model::ArtifactQuota unnamed(const std::string& tenant) const;
  // What of `quota` that leaves for the ledger to give.
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
