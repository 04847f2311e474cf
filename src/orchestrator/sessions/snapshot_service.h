// SPDX-License-Identifier: Apache-2.0
// SnapshotService: workspaces of sessions kept as snapshots, and put into new sessions.
//
// A snapshot: the session's programs are stopped (wire/files.h, `save`) → its archive is read as it
// comes, cut into chunks, and those that the tenant does not have are written → the manifest is
// written → the ledger names all of it; only now is it acknowledged. A chunk is noted in the ledger
// before it is written, so that after a crash retention finds what nothing names.
//
// A restoration: the manifest and every chunk are there and whole as far as their ends tell → the
// session is made → its file server unpacks what is read, each chunk checked before any of it is
// used → the session runs. Whatever fails on the way ends the session before anyone has it.
//
// docs/adr/0025. On the executor; what takes time happens on background threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/result.h"
#include "model/principal.h"
#include "model/snapshot.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/shares.h"
#include "orchestrator/sessions/sessions.h"
#include "orchestrator/storage/blob_keeper.h"
#include "store/store.h"

namespace cloister::orchestrator {

struct SnapshotConfig {
  model::SnapshotQuota quota;              // of each tenant
  const Quotas* quotas = nullptr;          // whose bytes count before those; null: none
  uint64_t max_bytes = uint64_t{4} << 30;  // of one: its files and their names
  uint64_t max_entries = 200'000;          // the same
  uint32_t at_once = 4;                    // taken and restored, of all tenants
  uint32_t at_once_per_tenant = 3;
  int64_t ttl_us = 0;                     // at most; 0: none
  uint64_t disk_over_bytes = UINT64_MAX;  // model::needsDisk(), of sessions that are filled
};

class SnapshotService {
 public:
  SnapshotService(boost::asio::any_io_executor executor, boost::asio::thread_pool& background,
                  store::Store& store, BlobKeeper& blobs, Sessions& sessions,
                  SnapshotConfig config);

  // kTooLarge and kQuota name the bound; otherwise as Sessions::files().
  Task<Result<model::Snapshot>> take(model::Principal principal, std::string session,
                                     model::SnapshotRequest request);
  Result<model::Snapshot> get(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Snapshot>> list(const model::Principal& principal,
                                            const store::ArtifactQuery& query);
  Task<Result<>> remove(model::Principal principal, std::string id);

  // As Sessions::create(), with the files of `request.from_snapshot`. kNotFound for one that is
  // not the principal's tenant's; kConflict for one that is damaged, naming the chunk; kInvalid
  // for limits that its files do not fit into. One with memory goes on, with the runtime, image and
  // limits that it had.
  Task<Result<model::Session>> restore(model::Principal principal, model::SessionRequest request,
                                       std::string idempotency_key);

 private:
  class Taking;

  [[nodiscard]] model::SnapshotQuota quotaOf(const std::string& tenant) const;
  Result<uint64_t> roomFor(const std::string& tenant);
  Task<Result<>> check(model::Snapshot snapshot);
  // Its tenant's own.
  Result<model::Snapshot> ownSnapshot(const model::Principal& principal, const std::string& id);
  Task<Result<SessionFill>> fillFrom(model::Snapshot snapshot);
  Task<Result<>> fill(model::Snapshot snapshot, FileCall& call);
  Result<std::shared_ptr<artifacts::BlobReader>> open(const model::BlobName& name,
                                                      const std::string& what);

  boost::asio::any_io_executor executor_;
  boost::asio::thread_pool& background_;
  store::Store& store_;
  BlobKeeper& blobs_;
  Sessions& sessions_;
  SnapshotConfig config_;
  Ledger ledger_;
  Shares at_once_;
};

}  // namespace cloister::orchestrator
