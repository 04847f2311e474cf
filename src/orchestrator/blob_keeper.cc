// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/blob_keeper.h"

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

}  // namespace cloister::orchestrator
