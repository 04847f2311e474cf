// SPDX-License-Identifier: Apache-2.0
// SnapshotService: keeps workspaces of sessions as snapshots, and restores snapshots into new
// sessions.
//
// A snapshot: the session's programs are stopped (wire/files.h, `save`) → the streamed archive is
// cut into chunks, and chunks that the tenant lacks are written → the manifest is written → the
// ledger names all of these; only now is the snapshot acknowledged. The ledger notes a chunk before
// its write, so that after a crash retention finds unnamed chunks.
//
// A restoration: the manifest and every chunk exist and are whole, as far as their ends tell → the
// session is made → its file server unpacks the archive, and each chunk is checked before its use →
// the session runs. Any failure ends the session before any client sees the session.
//
// docs/adr/0025. On the executor; slow work happens on background threads.
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
  const Quotas* quotas = nullptr;          // storage quotas, counted before those; null: none
  uint64_t max_bytes = uint64_t{4} << 30;  // of a snapshot: its files and their names
  uint64_t max_entries = 200'000;          // the same
  uint32_t at_once = 4;                    // taken and restored, of all tenants
  uint32_t at_once_per_tenant = 3;
  int64_t ttl_us = 0;                     // at most; 0: none
  uint64_t disk_over_bytes = UINT64_MAX;  // model::needsDisk(), of filled sessions
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

  // As Sessions::create(), with the files of `request.from_snapshot`. kNotFound for a snapshot
  // beyond the principal's tenant; kConflict for a damaged snapshot, naming the chunk; kInvalid if
  // its files exceed the limits. A snapshot with memory continues with its earlier runtime, image
  // and limits.
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
  Task<Result<std::shared_ptr<artifacts::BlobReader>>> open(model::BlobName name, std::string what);
  Task<Result<>> openAll(std::string tenant, std::vector<model::SnapshotChunk> chunks);

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
