// SPDX-License-Identifier: Apache-2.0
// BlobKeeper: keeps blobs and the records that name them consistent. A blob exists before the first
// record names the blob, and goes after the last record; in between, the keeper holds the blob. A
// blob is held before it exists, and no blob is held while its removal is under way. For
// RunService, ArtifactService and SnapshotService, on their executor, which ends before the keeper.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "artifacts/blobs.h"
#include "async/signal.h"
#include "store/store.h"

namespace cloister::orchestrator {

class BlobKeeper {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // Settles blobs whose naming was interrupted by a crash.
  static Result<std::unique_ptr<BlobKeeper>> open(const boost::asio::any_io_executor& executor,
                                                  store::Store& store, artifacts::Blobs& blobs);

  [[nodiscard]] artifacts::Blobs& blobs() const { return blobs_; }
  // BlobWriter::finish(), with the blob held until release(); nothing is held after an error. The
  // writer outlives the call.
  Task<Result<std::string>> keep(std::string tenant, artifacts::BlobWriter& writer);
  // The same for a sealed writer, whose blob `blob` is.
  Task<Result<>> keepSealed(model::BlobName blob, artifacts::BlobWriter& writer);
  // A record with the blob's name is on its way to the ledger. Waits for a removal of the blob.
  Task<void> hold(model::BlobName blob);
  // The record exists, or will never exist: then `named` is false, and the blob goes unless another
  // record names the blob. A failed removal is noted in the ledger, and retention tries again.
  void release(const model::BlobName& blob, bool named);
  // Removes blobs that no record names according to the ledger, except held blobs; gives the
  // removed.
  Task<std::vector<model::BlobName>> remove(std::vector<model::BlobName> blobs);

  // Counts a tenant's kept blobs that no record names yet, such as interrupted uploads.
  void countUnnamed(const std::string& tenant, model::ArtifactQuota kept);
  [[nodiscard]] model::ArtifactQuota unnamed(const std::string& tenant) const;
  // The rest of `quota` for the ledger to give.
  [[nodiscard]] model::ArtifactQuota without(const std::string& tenant,
                                             model::ArtifactQuota quota) const;

 private:
  BlobKeeper(const boost::asio::any_io_executor& executor, store::Store& store,
             artifacts::Blobs& blobs)
      : store_(store), blobs_(blobs), changed_(executor) {}
  bool startRemoval(const model::BlobName& blob, std::function<void(bool gone)> done);

  store::Store& store_;
  artifacts::Blobs& blobs_;
  async::Signal changed_;  // a removal has ended
  std::multiset<model::BlobName> held_;
  std::set<model::BlobName> removing_;
  std::map<std::string, model::ArtifactQuota> unnamed_;  // by tenant
};

}  // namespace cloister::orchestrator
