// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/blob_keeper.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/rows/snapshots.h"
#include "store/write.h"

namespace cloister::orchestrator {

Result<std::unique_ptr<BlobKeeper>> BlobKeeper::open(const boost::asio::any_io_executor& executor,
                                                     store::Store& store, artifacts::Blobs& blobs) {
  TRY(blobs.recover([&](const model::BlobName& blob) { return store.isNamed(blob); }));
  return std::unique_ptr<BlobKeeper>(new BlobKeeper(executor, store, blobs));
}

BlobKeeper::Task<Result<std::string>> BlobKeeper::keep(std::string tenant,
                                                       artifacts::BlobWriter& writer) {
  std::string digest = CO_TRY(co_await writer.seal());
  CO_TRY(co_await keepSealed({std::move(tenant), digest}, writer));
  co_return digest;
}

BlobKeeper::Task<Result<>> BlobKeeper::keepSealed(model::BlobName blob,
                                                  artifacts::BlobWriter& writer) {
  co_await hold(blob);
  auto kept = co_await writer.keep();
  if (!kept) release(blob, false);
  co_return kept;
}

BlobKeeper::Task<void> BlobKeeper::hold(model::BlobName blob) {
  while (removing_.contains(blob))
    co_await changed_.wait();
  held_.insert(std::move(blob));
}

void BlobKeeper::release(const model::BlobName& blob, bool named) {
  held_.extract(blob);
  if (named || held_.contains(blob)) return;
  const auto elsewhere = store_.isNamed(blob);
  if (!elsewhere || *elsewhere) return;
  startRemoval(blob, [this, blob](bool gone) {
    if (!gone) store_.write(store::writing(store::noteBlob, blob), [](const Result<>&) {});
  });
}

// False if the removal is under way already.
bool BlobKeeper::startRemoval(const model::BlobName& blob, std::function<void(bool gone)> done) {
  if (!removing_.insert(blob).second) return false;
  blobs_.remove(blob, [this, blob, done = std::move(done)](const Result<>& removed) {
    removing_.erase(blob);
    if (!removed) {
      base::log(base::Level::kError, "blob not removed",
                {{"sha256", blob.sha256}, {"reason", removed.error().message}});
    }
    done(removed.has_value());
    changed_.notify();
  });
  return true;
}

BlobKeeper::Task<std::vector<model::BlobName>> BlobKeeper::remove(
    std::vector<model::BlobName> blobs) {
  struct Removals {
    size_t left = 0;
    std::vector<model::BlobName> gone = {};
  };
  const auto removals = std::make_shared<Removals>();
  for (const model::BlobName& blob : blobs) {
    if (held_.contains(blob)) continue;
    removals->left++;
    const bool started = startRemoval(blob, [removals, blob](bool gone) {
      removals->left--;
      if (gone) removals->gone.push_back(blob);
    });
    if (!started) removals->left--;
  }
  while (removals->left > 0)
    co_await changed_.wait();
  co_return std::move(removals->gone);
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
