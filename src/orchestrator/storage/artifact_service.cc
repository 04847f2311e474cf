// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/artifact_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "artifacts/links.h"
#include "async/awaiting.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "orchestrator/core/display_path.h"
#include "orchestrator/core/link_standing.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/reach.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kLongestPath = 1024;
constexpr size_t kLongestUpload = 64;

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

// Checks a name for use in a path of the API.
Result<> checkUploadName(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kLongestUpload && name[0] != '.' &&
      std::ranges::all_of(name, plain)) {
    return {};
  }
  return fail(Code::kInvalid,
              "query parameter upload: must be 1 to 64 letters, digits, \"-\", \"_\" and \".\", "
              "the first of them not \".\"",
              "query.upload");
}

// The error for the requester: the stored artifact is damaged, and a retry does not help.
Error unusable(Error error, const std::string& id) {
  if (error.code != Code::kInternal) return error;
  base::log(base::Level::kError, "artifact unreadable",
            {{"artifact", id}, {"error", error.message}});
  return {Code::kConflict,
          "reading artifact " + id + ": what is stored of it is damaged (" + error.message +
              "); delete it (cloister artifact rm) and upload it, or run what made it, again",
          {}};
}

class NamedReader final : public artifacts::BlobReader {
 public:
  NamedReader(std::unique_ptr<artifacts::BlobReader> blob, std::string id)
      : blob_(std::move(blob)), id_(std::move(id)) {}
  [[nodiscard]] uint64_t size() const override { return blob_->size(); }
  artifacts::Task<Result<std::string>> read(uint64_t offset, size_t length) override {
    auto bytes = co_await blob_->read(offset, length);
    if (!bytes) co_return std::unexpected(unusable(std::move(bytes).error(), id_));
    co_return bytes;
  }

 private:
  std::unique_ptr<artifacts::BlobReader> blob_;
  std::string id_;
};

bool isDigest(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<> checkWanted(const NewArtifact& wanted) {
  if (wanted.path.size() > kLongestPath || wanted.path.ends_with('/') || wanted.path.empty() ||
      displayPath(wanted.path) != wanted.path) {
    return fail(Code::kInvalid,
                "path: must be a relative path of at most 1024 bytes, without \".\", \"..\" and "
                "control characters",
                "query.path");
  }
  if (!wanted.upload.empty()) TRY(checkUploadName(wanted.upload));
  if (wanted.offset && wanted.upload.empty()) {
    return fail(Code::kInvalid, "query parameter offset: goes with upload", "query.offset");
  }
  if (wanted.sha256.empty() || isDigest(wanted.sha256)) return {};
  return fail(Code::kInvalid, "query parameter sha256: must be 64 lower-case hex digits",
              "query.sha256");
}

}  // namespace

// A request that sends an upload. At the end of the request, a named upload is kept if it can be
// resumed.
class ArtifactService::Upload {
 public:
  Upload(std::shared_ptr<void> place, model::Principal by, const NewArtifact& wanted)
      : place_(std::move(place)),
        by_(std::move(by)),
        sha256_(wanted.sha256),
        ttl_us_(wanted.ttl_us) {}
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() {
    if (sent_) *sent_ -= size_;
    if (kept_ == nullptr) return;
    // Its bytes may be on their way still where only its coroutine was destroyed.
    if (busy_ || !content_->good() || content_->size() == 0) {
      kept_->drop(name_);
    } else {
      kept_->rest(name_);
    }
  }

  [[nodiscard]] const model::Principal& by() const { return by_; }

  // For the service alone: no other file sees the class.
  std::shared_ptr<void> place_;  // a place among the uploads at once
  model::Principal by_;
  std::string sha256_;  // the expected digest
  int64_t ttl_us_;
  std::shared_ptr<UploadContent> content_;  // null: the upload ended before, as ended_
  std::string ended_;
  std::shared_ptr<KeptUploads> kept_;  // has the upload as name_; null: unnamed
  UploadName name_;
  bool busy_ = false;  // another thread has content_
  // The bytes that the tenant is sending now, and this upload's part.
  std::shared_ptr<uint64_t> sent_;
  uint64_t size_ = 0;
  uint64_t room_ = 0;  // the tenant's, at the beginning of the upload
};

ArtifactService::ArtifactService(std::shared_ptr<Control> control, BlobKeeper& blobs,
                                 artifacts::Keyring& keys, ArtifactConfig config, Scanner* scanner)
    : control_(std::move(control)),
      blobs_(blobs),
      keys_(keys),
      config_(config),
      scanner_(scanner),
      at_once_({.all = config.uploads,
                .per_tenant = config.uploads_per_tenant,
                .key = "artifacts.uploads"}),
      kept_(std::make_shared<KeptUploads>(control_->executor, blobs, config.kept)) {}

Result<std::shared_ptr<ArtifactService::Upload>> ArtifactService::begin(
    const model::Principal& principal, NewArtifact wanted) {
  TRY(checkWanted(wanted));
  auto place = TRY(at_once_.enter(principal.tenant, "uploading", "uploads"));
  const uint64_t before = wanted.offset.value_or(0);
  const uint64_t now = wanted.size.value_or(0);
  if (now > config_.max_bytes || before > config_.max_bytes - now) {
    return fail(Code::kTooLarge, "uploading: at most " + std::to_string(config_.max_bytes) +
                                     " bytes are taken (artifacts.max_mb)");
  }
  const auto upload = std::make_shared<Upload>(std::move(place), principal, wanted);
  upload->content_ = TRY(contentFor(principal, wanted));
  const UploadName name{principal.tenant, principal.agent, wanted.upload};
  if (!upload->content_) {
    upload->ended_ = TRY(kept_->get(name)).artifact_id;
    return upload;
  }
  if (!wanted.upload.empty()) {
    TRY(kept_->begin(name, upload->content_, std::move(wanted.stop)));
    upload->name_ = name;
    upload->kept_ = kept_;
  }
  // The kept bytes of the upload do not count twice.
  upload->room_ = TRY(roomFor(principal.tenant, before + now));
  upload->content_->allow(std::min(config_.max_bytes, upload->room_));
  upload->sent_ = sentBy(principal.tenant);
  TRY(count(*upload, upload->content_->size()));
  return upload;
}

std::shared_ptr<uint64_t> ArtifactService::sentBy(const std::string& tenant) {
  std::erase_if(sent_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<uint64_t>& known = sent_[tenant];
  auto sent = known.lock();
  if (!sent) known = sent = std::make_shared<uint64_t>(0);
  return sent;
}

// Parallel uploads must not fill the disk with bytes that the ledger refuses only at their ends.
Result<> ArtifactService::count(Upload& upload, uint64_t more) {
  const auto fits = [&](uint64_t sent) {
    return more <= upload.room_ - std::min(upload.room_, sent);
  };
  if (fits(upload.size_) && !fits(*upload.sent_)) {  // otherwise its own bound refuses the upload
    return fail(Code::kQuota,
                "uploading: what the tenant uploads now has used up its room for artifacts "
                "(artifacts.quota_mb)");
  }
  *upload.sent_ += more;
  upload.size_ += more;
  return {};
}

// The kept content of the upload, or new content; null for an ended upload.
Result<std::shared_ptr<UploadContent>> ArtifactService::contentFor(
    const model::Principal& principal, const NewArtifact& wanted) {
  const UploadName name{principal.tenant, principal.agent, wanted.upload};
  const bool from_start = wanted.offset.value_or(0) == 0;
  if (wanted.offset && !(from_start && !kept_->get(name))) {
    return kept_->find(name, wanted.path, *wanted.offset);
  }
  auto writer = TRY(blobs_.blobs().create(principal.tenant));
  return std::make_shared<UploadContent>(wanted.path, std::move(writer));
}

model::ArtifactQuota ArtifactService::quotaOf(const std::string& tenant) const {
  if (config_.quotas == nullptr) return config_.quota;
  return config_.quotas->storageOf(tenant, config_.quota);
}

// Applies the ledger's final check before any bytes are sent.
Result<uint64_t> ArtifactService::roomFor(const std::string& tenant, uint64_t size) {
  model::ArtifactQuota used = TRY(control_->store.artifactUsage(tenant));
  const model::ArtifactQuota kept = blobs_.unnamed(tenant);
  used.artifacts += kept.artifacts;
  used.bytes += kept.bytes;
  const model::ArtifactQuota quota = quotaOf(tenant);
  if (used.artifacts < quota.artifacts && used.bytes <= quota.bytes &&
      size <= quota.bytes - used.bytes) {
    return quota.bytes - used.bytes;
  }
  const std::string broken =
      kept.artifacts == 0 ? "" : ", uploads that broke off among them (GET /v1/uploads)";
  return fail(Code::kQuota, "uploading: the tenant may keep " + std::to_string(quota.artifacts) +
                                " artifacts and " + std::to_string(quota.bytes) +
                                " bytes, and keeps " + std::to_string(used.artifacts) + " and " +
                                std::to_string(used.bytes) + broken +
                                "; delete some, or have its quota raised (artifacts.quota_mb, "
                                "artifacts.quota_count)");
}

ArtifactService::Task<Result<>> ArtifactService::write(std::shared_ptr<Upload> upload,
                                                       std::string bytes) {
  if (!upload->content_) {
    co_return fail(Code::kConflict, "uploading: it has ended as artifact " + upload->ended_,
                   "query.offset");
  }
  CO_TRY(count(*upload, bytes.size()));
  const auto piece = std::make_shared<const std::string>(std::move(bytes));
  upload->busy_ = true;
  auto written = co_await async::inBackground<Result<>>(
      control_->background, [content = upload->content_, piece] { return content->write(*piece); });
  upload->busy_ = false;
  if (upload->kept_) upload->kept_->grown(upload->name_, upload->content_->size());
  co_return written;
}

ArtifactService::Task<Result<model::Artifact>> ArtifactService::finish(
    std::shared_ptr<Upload> upload) {
  if (!upload->content_) co_return get(upload->by(), upload->ended_);
  const auto content = upload->content_;
  upload->busy_ = true;
  auto finished = co_await content->finish(blobs_, upload->by().tenant);
  upload->busy_ = false;
  model::Artifact artifact;
  artifact.tenant = upload->by().tenant;
  artifact.agent = upload->by().agent;
  artifact.ref = CO_TRY(std::move(finished));
  artifact.ref.id = base::newId("art");
  artifact.created_at = base::wallMicros();
  artifact.ref.expires_at = expiryOf(artifact.created_at, upload->ttl_us_);
  if (const auto sound = co_await check(*upload, artifact); !sound) {
    blobs_.release(artifact.blob(), false);
    co_return std::unexpected(sound.error());
  }
  const auto named = co_await control_->ledger.write(
      store::addArtifact, artifact, blobs_.without(artifact.tenant, quotaOf(artifact.tenant)),
      eventOf("artifact.created", upload->by(), artifact));
  blobs_.release(artifact.blob(), named.has_value());
  CO_TRY(named);
  if (const auto kept = std::exchange(upload->kept_, nullptr)) {
    kept->end(upload->name_, artifact.ref.id);
  }
  co_return artifact;
}

int64_t ArtifactService::expiryOf(int64_t created_at, int64_t wanted_ttl_us) const {
  int64_t ttl = config_.ttl_us;
  if (wanted_ttl_us > 0) ttl = ttl == 0 ? wanted_ttl_us : std::min(ttl, wanted_ttl_us);
  return ttl > 0 ? created_at + ttl : 0;
}

// Checks the digest, and asks the scanner.
ArtifactService::Task<Result<>> ArtifactService::check(const Upload& upload,
                                                       const model::Artifact& artifact) {
  if (!upload.sha256_.empty() && upload.sha256_ != artifact.ref.sha256) {
    co_return fail(Code::kInvalid,
                   "query parameter sha256: what has come has the digest " + artifact.ref.sha256,
                   "query.sha256");
  }
  if (scanner_ == nullptr) co_return Result<>();
  auto content = CO_TRY(co_await open(artifact));
  auto clean = co_await scanner_->scan(std::move(content));
  if (clean) co_return clean;
  model::AuditEvent event = eventOf("artifact.refused", upload.by(), artifact);
  event.details["reason"] = clean.error().message;
  CO_TRY(co_await control_->ledger.write(store::appendEvent, std::move(event)));
  co_return clean;
}

ArtifactService::Task<Result<>> ArtifactService::interrupt(const model::Principal& principal,
                                                           const std::string& upload) {
  return kept_->interrupt({principal.tenant, principal.agent, upload});
}

Result<UploadState> ArtifactService::upload(const model::Principal& principal,
                                            const std::string& upload) const {
  return kept_->get(kept_->meant(principal, upload));
}

std::vector<UploadState> ArtifactService::uploads(const model::Principal& principal) const {
  return kept_->list(principal);
}

ArtifactService::Task<Result<>> ArtifactService::dropUpload(model::Principal principal,
                                                            std::string upload) {
  const UploadName name = kept_->meant(principal, upload);
  CO_TRY(kept_->get(name));
  CO_TRY(mustReach(principal, makerOf(name.tenant, name.agent), "deleting an upload"));
  CO_TRY(co_await kept_->interrupt(name));
  kept_->drop(name);
  co_return Result<>();
}

Result<model::Artifact> ArtifactService::get(const model::Principal& principal,
                                             const std::string& id) {
  return control_->store.artifact(store::Scope::of(principal), id);
}

Result<std::vector<model::Artifact>> ArtifactService::list(const model::Principal& principal,
                                                           const store::ArtifactQuery& query) {
  return control_->store.artifacts(store::Scope::of(principal), query);
}

ArtifactService::Task<Result<>> ArtifactService::remove(model::Principal principal,
                                                        std::string id) {
  const model::Artifact artifact = CO_TRY(get(principal, id));
  CO_TRY(mustReach(principal, makerOf(artifact.tenant, artifact.agent), "deleting an artifact"));
  const auto freed =
      co_await control_->ledger.write(store::removeArtifact, store::Scope::of(principal), id,
                                      eventOf("artifact.deleted", principal, artifact));
  co_await blobs_.remove(CO_TRY(freed));
  co_return Result<>();
}

// The key goes first: after a crash in between, all artifacts are already unreadable.
ArtifactService::Task<Result<uint64_t>> ArtifactService::forget(model::Principal by,
                                                                std::string tenant) {
  kept_->dropAll(tenant);
  CO_TRY(co_await blobs_.blobs().forget(tenant));
  model::AuditEvent event{.action = "artifact.key_destroyed",
                          .subject = tenant,
                          .principal = std::move(by),
                          .details = {{"tenant", tenant}}};
  co_return co_await control_->ledger.write(store::removeArtifacts, std::move(tenant),
                                            std::move(event));
}

ArtifactService::Task<Result<std::shared_ptr<artifacts::BlobReader>>> ArtifactService::open(
    model::Artifact artifact) {
  auto reader = co_await blobs_.blobs().open(artifact.blob());
  if (reader) co_return std::make_shared<NamedReader>(*std::move(reader), artifact.ref.id);
  // Removed just now, or only its bytes are gone.
  CO_TRY(control_->store.artifact(store::Scope::allTenants(), artifact.ref.id));
  if (reader.error().code == Code::kNotFound) reader.error().code = Code::kInternal;
  co_return std::unexpected(unusable(std::move(reader).error(), artifact.ref.id));
}

ArtifactService::Task<Result<std::string>> ArtifactService::read(
    std::shared_ptr<artifacts::BlobReader> reader, uint64_t offset, size_t length) {
  co_return co_await reader->read(offset, length);
}

Result<std::string> ArtifactService::sign(const model::Artifact& artifact, int64_t expires_at,
                                          const std::string& made_with) {
  const auto keys = TRY(keys_.of(artifact.tenant));
  return artifacts::signLink(*keys, {artifact.tenant, artifact.ref.id, expires_at, made_with});
}

Result<model::Artifact> ArtifactService::verify(const std::string& id, int64_t expires_at,
                                                const std::string& made_with,
                                                const std::string& signature) {
  const auto artifact = control_->store.artifact(store::Scope::allTenants(), id);
  const auto keys = artifact ? keys_.find(artifact->tenant) : nullptr;
  if (!keys ||
      !artifacts::verifyLink(*keys, {artifact->tenant, id, expires_at, made_with}, signature)) {
    return fail(Code::kUnauthorized,
                "the link is not one that was made here, or its artifact is gone");
  }
  // Only the holder of a once good link learns the reason.
  if (expires_at * 1'000'000 <= base::wallMicros()) {
    return fail(Code::kUnauthorized, "the link has expired; ask for another");
  }
  const auto holds = linkHolds(control_->store, made_with);
  if (holds) return *artifact;
  if (holds.error().code != Code::kDenied) return std::unexpected(holds.error());
  return fail(Code::kUnauthorized,
              "the link was made with a credential that is expired or revoked");
}

}  // namespace cloister::orchestrator
