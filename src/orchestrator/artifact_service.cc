// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/artifact_service.h"

#include <algorithm>

#include "artifacts/links.h"
#include "base/clock.h"
#include "base/content_type.h"
#include "base/id.h"
#include "orchestrator/awaiting.h"
#include "orchestrator/quota.h"
#include "orchestrator/recorder.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kHeadBytes = 512;
constexpr size_t kLongestPath = 1024;

model::AuditEvent eventOf(std::string action, const model::Principal& by,
                          const model::Artifact& artifact) {
  return {.action = std::move(action),
          .subject = artifact.ref.id,
          .principal = by,
          .details = {{"path", artifact.ref.path},
                      {"size", artifact.ref.size},
                      {"sha256", artifact.ref.sha256},
                      {"tenant", artifact.tenant}}};
}

}  // namespace

// One upload; used by one thread at a time.
class ArtifactService::Upload {
 public:
  Upload(std::shared_ptr<void> place, model::Principal by, model::Artifact artifact, uint64_t most,
         std::unique_ptr<artifacts::BlobWriter> writer)
      : place_(std::move(place)),
        by_(std::move(by)),
        artifact_(std::move(artifact)),
        most_(most),
        writer_(std::move(writer)) {}
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() = default;

  Result<> write(std::string_view bytes) {
    model::ArtifactRef& ref = artifact_.ref;
    if (bytes.size() > most_ - ref.size) {
      return fail(Code::kTooLarge, "uploading: at most " + std::to_string(most_) +
                                       " bytes are taken (artifacts.max_mb, artifacts.quota_mb)");
    }
    ref.size += bytes.size();
    if (head_.size() < kHeadBytes) head_ += bytes.substr(0, kHeadBytes);
    return writer_->write(bytes);
  }

  Result<> finish() {
    artifact_.ref.sha256 = TRY(writer_->finish());
    artifact_.ref.content_type = base::sniffContentType(artifact_.ref.path, head_);
    return {};
  }

  [[nodiscard]] const model::Artifact& artifact() const { return artifact_; }
  [[nodiscard]] const model::Principal& by() const { return by_; }

 private:
  std::shared_ptr<void> place_;  // among those at once
  model::Principal by_;
  model::Artifact artifact_;
  uint64_t most_;
  std::string head_;  // first bytes, to tell the type
  std::unique_ptr<artifacts::BlobWriter> writer_;
};

ArtifactService::ArtifactService(boost::asio::any_io_executor executor,
                                 boost::asio::thread_pool& background, store::Store& store,
                                 BlobKeeper& blobs, artifacts::Keyring& keys, ArtifactConfig config,
                                 Scanner* scanner)
    : background_(background),
      store_(store),
      blobs_(blobs),
      keys_(keys),
      config_(config),
      scanner_(scanner),
      ledger_(store, std::move(executor)),
      at_once_({.all = config.uploads,
                .per_tenant = config.uploads_per_tenant,
                .key = "artifacts.uploads"}) {}

Result<std::shared_ptr<ArtifactService::Upload>> ArtifactService::begin(
    const model::Principal& principal, NewArtifact wanted) {
  if (wanted.path.size() > kLongestPath || wanted.path.ends_with('/') || wanted.path.empty() ||
      displayPath(wanted.path) != wanted.path) {
    return fail(Code::kInvalid,
                "path: must be a relative path of at most 1024 bytes, without \".\", \"..\" and "
                "control characters",
                "query.path");
  }
  auto place = TRY(at_once_.enter(principal.tenant, "uploading", "uploads"));
  if (wanted.size.value_or(0) > config_.max_bytes) {
    return fail(Code::kTooLarge, "uploading: at most " + std::to_string(config_.max_bytes) +
                                     " bytes are taken (artifacts.max_mb)");
  }
  const uint64_t room = TRY(roomFor(principal.tenant, wanted.size));
  const uint64_t most = std::min(config_.max_bytes, room);
  model::Artifact artifact;
  artifact.ref.id = base::newId("art");
  artifact.ref.path = std::move(wanted.path);
  artifact.tenant = principal.tenant;
  artifact.created_at = base::wallMicros();
  const int64_t ttl = config_.ttl_us == 0  ? wanted.ttl_us
                      : wanted.ttl_us == 0 ? config_.ttl_us
                                           : std::min(wanted.ttl_us, config_.ttl_us);
  if (ttl > 0) artifact.ref.expires_at = artifact.created_at + ttl;
  auto writer = TRY(blobs_.blobs().create(principal.tenant));
  return std::make_shared<Upload>(std::move(place), principal, std::move(artifact), most,
                                  std::move(writer));
}

model::ArtifactQuota ArtifactService::quotaOf(const std::string& tenant) const {
  if (config_.quotas == nullptr) return config_.quota;
  return config_.quotas->storageOf(tenant, config_.quota);
}

// What the ledger will say at the end, before anything is sent.
Result<uint64_t> ArtifactService::roomFor(const std::string& tenant, std::optional<uint64_t> size) {
  const model::ArtifactQuota used = TRY(store_.artifactUsage(tenant));
  const model::ArtifactQuota quota = quotaOf(tenant);
  if (used.artifacts < quota.artifacts && used.bytes <= quota.bytes &&
      size.value_or(0) <= quota.bytes - used.bytes) {
    return quota.bytes - used.bytes;
  }
  return fail(
      Code::kQuota,
      "uploading: the tenant may keep " + std::to_string(quota.artifacts) + " artifacts and " +
          std::to_string(quota.bytes) + " bytes, and keeps " + std::to_string(used.artifacts) +
          " and " + std::to_string(used.bytes) +
          "; delete some, or have its quota raised (artifacts.quota_mb, artifacts.quota_count)");
}

ArtifactService::Task<Result<>> ArtifactService::write(std::shared_ptr<Upload> upload,
                                                       std::string bytes) {
  const auto piece = std::make_shared<const std::string>(std::move(bytes));
  co_return co_await inBackground<Result<>>(background_,
                                            [upload, piece] { return upload->write(*piece); });
}

ArtifactService::Task<Result<model::Artifact>> ArtifactService::finish(
    std::shared_ptr<Upload> upload) {
  blobs_.beginNaming();
  const auto finished =
      co_await inBackground<Result<>>(background_, [upload] { return upload->finish(); });
  const model::Artifact& artifact = upload->artifact();
  if (finished) blobs_.hold(artifact.blob());
  blobs_.endNaming();
  CO_TRY(finished);
  if (scanner_ != nullptr) {
    auto content = open(artifact);
    Result<> clean;
    if (content) clean = co_await scanner_->scan(*std::move(content));
    if (!content) clean = std::unexpected(std::move(content).error());
    if (!clean) {
      blobs_.release(artifact.blob(), false);
      model::AuditEvent event = eventOf("artifact.refused", upload->by(), artifact);
      event.details["reason"] = clean.error().message;
      CO_TRY(co_await ledger_.append(std::move(event)));
      co_return std::unexpected(clean.error());
    }
  }
  const auto named = co_await ledger_.addArtifact(
      artifact, quotaOf(artifact.tenant), eventOf("artifact.created", upload->by(), artifact));
  blobs_.release(artifact.blob(), named.has_value());
  CO_TRY(named);
  co_return artifact;
}

Result<model::Artifact> ArtifactService::get(const model::Principal& principal,
                                             const std::string& id) {
  return store_.artifact(store::Scope::of(principal), id);
}

Result<std::vector<model::Artifact>> ArtifactService::list(const model::Principal& principal,
                                                           const store::ArtifactQuery& query) {
  return store_.artifacts(store::Scope::of(principal), query);
}

ArtifactService::Task<Result<>> ArtifactService::remove(model::Principal principal,
                                                        std::string id) {
  const model::Artifact artifact = CO_TRY(get(principal, id));
  const auto freed = co_await ledger_.removeArtifact(
      store::Scope::of(principal), id, eventOf("artifact.deleted", principal, artifact));
  blobs_.remove(CO_TRY(freed));
  co_return Result<>();
}

// The key goes first: whatever comes between, nothing can be read any more.
ArtifactService::Task<Result<uint64_t>> ArtifactService::forget(model::Principal by,
                                                                std::string tenant) {
  CO_TRY(blobs_.blobs().forget(tenant));
  model::AuditEvent event{.action = "artifact.key_destroyed",
                          .subject = tenant,
                          .principal = std::move(by),
                          .details = {{"tenant", tenant}}};
  co_return co_await ledger_.removeArtifacts(std::move(tenant), std::move(event));
}

Result<std::shared_ptr<artifacts::BlobReader>> ArtifactService::open(
    const model::Artifact& artifact) {
  auto reader = blobs_.blobs().open(artifact.blob());
  if (!reader) return std::unexpected(std::move(reader).error());
  return std::shared_ptr<artifacts::BlobReader>(*std::move(reader));
}

ArtifactService::Task<Result<std::string>> ArtifactService::read(
    std::shared_ptr<artifacts::BlobReader> reader, uint64_t offset, size_t length) {
  co_return co_await inBackground<Result<std::string>>(
      background_, [reader, offset, length] { return reader->read(offset, length); });
}

Result<std::string> ArtifactService::sign(const model::Artifact& artifact, int64_t expires_at) {
  const auto keys = TRY(keys_.of(artifact.tenant));
  return artifacts::signLink(*keys, {artifact.tenant, artifact.ref.id, expires_at});
}

Result<model::Artifact> ArtifactService::verify(const std::string& id, int64_t expires_at,
                                                const std::string& signature) {
  const auto artifact = store_.artifact(store::Scope::allTenants(), id);
  const auto keys = artifact ? keys_.find(artifact->tenant) : nullptr;
  if (keys && artifacts::verifyLink(*keys, {artifact->tenant, id, expires_at}, signature) &&
      expires_at * 1'000'000 > base::wallMicros()) {
    return *artifact;
  }
  return fail(Code::kUnauthorized, "the link is not good, or no longer");
}

}  // namespace cloister::orchestrator
