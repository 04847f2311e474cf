// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/blob_keeper.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace cloister::orchestrator {

Result<BlobKeeper> BlobKeeper::open(store::Store& store, artifacts::Blobs& blobs) {
  TRY(blobs.recover([&](const model::BlobName& blob) { return store.isNamed(blob); }));
  return BlobKeeper(store, blobs);
}

void BlobKeeper::release(const model::BlobName& blob, bool named) {
  held_.extract(blob);
  if (named) return;
  const auto elsewhere = store_.isNamed(blob);
  if (elsewhere && !*elsewhere) remove({blob});
}

void BlobKeeper::endNaming() {
  if (--naming_ > 0) return;
  for (const model::BlobName& blob : std::exchange(later_, {})) {
    const auto named = store_.isNamed(blob);
    if (named && !*named) remove({blob});
  }
}

std::vector<model::BlobName> BlobKeeper::remove(const std::vector<model::BlobName>& blobs) {
  std::vector<model::BlobName> gone;
  if (naming_ > 0) later_.insert(blobs.begin(), blobs.end());
  for (const model::BlobName& blob : blobs) {
    if (naming_ > 0 || held_.contains(blob)) continue;
    if (const auto removed = blobs_.remove(blob); removed) {
      gone.push_back(blob);
    } else {
      base::log(base::Level::kError, "blob not removed",
                {{"sha256", blob.sha256}, {"reason", removed.error().message}});
    }
  }
  return gone;
}

void BlobKeeper::countUnnamed(const std::string& tenant, model::ArtifactQuota kept) {
  if (kept.artifacts == 0) {
    unnamed_.erase(tenant);
  } else {
    unnamed_[tenant] = kept;
  }
}

model::ArtifactQuota BlobKeeper::unnamed(const std::string& tenant) const {
  const auto found = unnamed_.find(tenant);
  return found == unnamed_.end() ? model::ArtifactQuota{} : found->second;
}

model::ArtifactQuota BlobKeeper::without(const std::string& tenant,
                                         model::ArtifactQuota quota) const {
  const model::ArtifactQuota kept = unnamed(tenant);
  return {.artifacts = quota.artifacts - std::min(quota.artifacts, kept.artifacts),
          .bytes = quota.bytes - std::min(quota.bytes, kept.bytes)};
}

}  // namespace cloister::orchestrator
