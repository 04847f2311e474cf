// SPDX-License-Identifier: Apache-2.0
// ArtifactService: the files that tenants keep, besides artifacts of runs. Slow work (a disk, a
// cipher over much, a store elsewhere) happens on background threads; everything else on the
// executor.
//
// An upload: begin → write … → finish: the blob is finished, then the ledger names the blob; only
// then is the upload acknowledged. Before, dropping the upload removes the written bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "artifacts/blobs.h"
#include "artifacts/keyring.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/principal.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/shares.h"
#include "orchestrator/storage/blob_keeper.h"
#include "orchestrator/storage/kept_uploads.h"
#include "orchestrator/storage/scanner.h"
#include "store/store.h"

namespace cloister::orchestrator {

class Quotas;

struct ArtifactConfig {
  uint64_t max_bytes = uint64_t{4} << 30;  // of an upload
  model::ArtifactQuota quota;              // of each tenant
  const Quotas* quotas = nullptr;          // override `quota`; null: none
  int64_t ttl_us = 0;                      // at most; 0: none
  uint32_t uploads = 64;                   // at once, of all tenants
  uint32_t uploads_per_tenant = 48;
  KeptBounds kept = {};
};

struct NewArtifact {
  std::string path;                     // relative; only a name, never opened
  int64_t ttl_us = 0;                   // 0: as long as may be
  std::optional<uint64_t> size;         // of the bytes sent now, if known
  std::string upload = {};              // the client's name; "": dropped on a break
  std::optional<uint64_t> offset = {};  // end of the kept part, where these bytes go on
  std::string sha256 = {};              // the expected digest of the whole; "": none
  std::function<void()> stop = {};      // ends the sending request
};

class ArtifactService {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;
  class Upload;

  // `blobs`, `keys` and `scanner` outlive it.
  ArtifactService(std::shared_ptr<Control> control, BlobKeeper& blobs, artifacts::Keyring& keys,
                  ArtifactConfig config, Scanner* scanner = nullptr);

  // kInvalid names the field; kTooLarge; kQuota without room, or with too many uploads at once;
  // kNotFound and kConflict like KeptUploads::find(). A caller with a named upload calls
  // interrupt() first.
  Result<std::shared_ptr<Upload>> begin(const model::Principal& principal, NewArtifact wanted);
  Task<Result<>> write(std::shared_ptr<Upload> upload, std::string bytes);
  // kDenied and kUnavailable as Scanner::scan(); kInvalid for another digest than was said.
  Task<Result<model::Artifact>> finish(std::shared_ptr<Upload> upload);

  // The tenant's named uploads; interrupt() is KeptUploads::interrupt().
  Task<Result<>> interrupt(const model::Principal& principal, const std::string& upload);
  [[nodiscard]] Result<UploadState> upload(const model::Principal& principal,
                                           const std::string& upload) const;
  [[nodiscard]] std::vector<UploadState> uploads(const model::Principal& principal) const;
  Task<Result<>> dropUpload(model::Principal principal, std::string upload);

  Result<model::Artifact> get(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Artifact>> list(const model::Principal& principal,
                                            const store::ArtifactQuery& query);
  Task<Result<>> remove(model::Principal principal, std::string id);
  // Destroys a tenant's key, and so all of its artifacts; gives their number.
  Task<Result<uint64_t>> forget(model::Principal by, std::string tenant);

  // Opens the artifact's bytes; the caller owns the reader. kConflict, also from read(), for a
  // damaged artifact; kUnavailable if the store of blobs does not answer.
  Task<Result<std::shared_ptr<artifacts::BlobReader>>> open(model::Artifact artifact);
  static Task<Result<std::string>> read(std::shared_ptr<artifacts::BlobReader> reader,
                                        uint64_t offset, size_t length);

  // A signature with which anyone may read the artifact until `expires_at` (Unix seconds), as long
  // as the credential `made_with` is good.
  Result<std::string> sign(const model::Artifact& artifact, int64_t expires_at,
                           const std::string& made_with);
  // The artifact of a link. kUnauthorized for every bad link, for any reason.
  Result<model::Artifact> verify(const std::string& id, int64_t expires_at,
                                 const std::string& made_with, const std::string& signature);

 private:
  Result<std::shared_ptr<UploadContent>> contentFor(const model::Principal& principal,
                                                    const NewArtifact& wanted);
  Task<Result<>> check(const Upload& upload, const model::Artifact& artifact);
  [[nodiscard]] int64_t expiryOf(int64_t created_at, int64_t wanted_ttl_us) const;
  [[nodiscard]] model::ArtifactQuota quotaOf(const std::string& tenant) const;
  // The bytes that the tenant may still keep; `size` must fit.
  Result<uint64_t> roomFor(const std::string& tenant, uint64_t size);
  // The bytes that the tenant's requests send now; and adds bytes of a request, or kQuota.
  std::shared_ptr<uint64_t> sentBy(const std::string& tenant);
  static Result<> count(Upload& upload, uint64_t more);

  std::shared_ptr<Control> control_;
  BlobKeeper& blobs_;
  artifacts::Keyring& keys_;
  ArtifactConfig config_;
  Scanner* scanner_;  // null: none
  Shares at_once_;
  std::map<std::string, std::weak_ptr<uint64_t>> sent_;
  std::shared_ptr<KeptUploads> kept_;
};

}  // namespace cloister::orchestrator
