// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/s3_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/s3/s3_move.h"
#include "artifacts/s3/s3_object.h"
#include "artifacts/sealed_file.h"
#include "artifacts/spool.h"
#include "async/awaiting.h"
#include "async/together.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"

namespace cloister::artifacts {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kForgotten = ".purge";

// State shared by the blobs, their writers and their readers, which end before the state.
struct Core {
  Core(S3BlobsOptions all, const std::string& slash)
      : options(std::move(all)),
        prefix(options.prefix.empty() ? "" : options.prefix + slash),
        client(options.client),
        pool(options.connections) {}

  S3BlobsOptions options;
  std::string prefix;
  S3Client client;
  asio::thread_pool pool;
  std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);

  // The first part of the names of all objects under the keys.
  [[nodiscard]] std::string folderOf(const TenantKeys& keys) const {
    return prefix + keys.dir.substr(keys.dir.rfind('/') + 1) + "/";
  }
  [[nodiscard]] std::string keyOf(const TenantKeys& keys, std::string_view digest) const {
    return folderOf(keys) + placeOf(keys, digest);
  }
  template <class T>
  Task<T> inPool(std::function<T()> work) {
    return async::inBackground<T>(pool, std::move(work));
  }
};

// --- writing

struct SpoolFile {
  Fd fd;
  uint64_t size = 0;
};

Result<std::shared_ptr<SpoolFile>> openSpool(const std::string& path) {
  auto file = std::make_shared<SpoolFile>();
  file->fd = Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!file->fd || ::fstat(file->fd.get(), &status) != 0) return failErrno("opening a sealed file");
  file->size = static_cast<uint64_t>(status.st_size);
  return file;
}

// Sends a file in parts, some at once; aborts the upload unless all is well.
class PartsUpload {
 public:
  PartsUpload(Core& core, std::string key, std::shared_ptr<SpoolFile> file)
      : core_(core), key_(std::move(key)), file_(std::move(file)) {
    part_ = partSizeOf(file_->size, core_.options.part_bytes);
    tags_.resize((file_->size + part_ - 1) / part_);
  }

  Task<Result<>> run() {
    upload_ = CO_TRY(co_await core_.inPool<Result<std::string>>(
        [client = &core_.client, key = key_] { return client->begin(key); }));
    async::Tasks parts;
    for (size_t i = 0; i < tags_.size(); ++i)
      parts.emplace_back([this, i] { return send(i); });
    co_await async::together(std::move(parts), core_.options.parts_at_once);
    if (outcome_) outcome_ = co_await finish(true);
    if (outcome_) co_return outcome_;
    if (const auto aborted = co_await finish(false); !aborted) {
      base::log(base::Level::kWarn, "upload to S3 not aborted, a sweep tries again",
                {{"reason", aborted.error().message}});
    }
    co_return outcome_;
  }

 private:
  Task<void> send(size_t i) {
    if (!outcome_) co_return;
    const uint64_t offset = i * part_;
    const FilePart body{file_->fd.get(), offset, std::min(part_, file_->size - offset)};
    auto tag = co_await core_.inPool<Result<std::string>>(
        [client = &core_.client, file = file_, key = key_, upload = upload_, i, body] {
          return client->put(key, upload, static_cast<uint32_t>(i + 1), body);
        });
    if (tag) tags_[i] = *std::move(tag);
    if (!tag && outcome_) outcome_ = std::unexpected(std::move(tag).error());
  }

  Task<Result<>> finish(bool whole) {
    return core_.inPool<Result<>>(
        [client = &core_.client, key = key_, upload = upload_, tags = tags_, whole] {
          return whole ? client->complete(key, upload, tags) : client->abort(key, upload);
        });
  }

  Core& core_;
  std::string key_;
  std::shared_ptr<SpoolFile> file_;
  uint64_t part_ = 0;
  std::string upload_;  // its id
  std::vector<std::string> tags_;
  Result<> outcome_;
};

class S3Writer : public BlobWriter {
 public:
  S3Writer(Core& core, const Keyring& keyring, std::string tenant, std::unique_ptr<Spool> spool)
      : core_(core),
        stopping_(core.stopping),
        keyring_(keyring),
        tenant_(std::move(tenant)),
        spool_(std::move(spool)) {}
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;
  ~S3Writer() override {
    if (*stopping_) spool_->leave();
  }

  Result<> write(std::string_view bytes) override { return spool_->write(bytes); }

  Task<Result<std::string>> seal() override {
    auto digest = co_await core_.inPool<Result<std::string>>(
        [spool = spool_, sync = core_.options.sync] { return spool->seal(sync); });
    if (digest) digest_ = *digest;
    co_return digest;
  }

  Task<Result<>> keep() override {
    const std::string digest = std::exchange(digest_, {});
    if (digest.empty()) co_return fail(Code::kInternal, "keeping a blob: it is not sealed");
    CO_TRY(isKnown());
    const std::string key = core_.keyOf(spool_->keys(), digest);
    CO_TRY(co_await send(key));
    auto known = isKnown();
    if (known) co_return known;
    // The objects of the tenant may have been removed before this object came.
    CO_TRY(co_await core_.inPool<Result<>>(
        [client = &core_.client, key] { return client->remove(key); }));
    co_return known;
  }

 private:
  [[nodiscard]] Result<> isKnown() const {
    const auto keys = keyring_.find(tenant_);
    if (keys && keys->dir == spool_->keys().dir) return {};
    return fail(Code::kConflict, "keeping a blob: the keys of its tenant were destroyed meanwhile");
  }

  Task<Result<>> send(std::string key) {
    auto file = CO_TRY(co_await core_.inPool<Result<std::shared_ptr<SpoolFile>>>(
        [path = spool_->path()] { return openSpool(path); }));
    if (file->size > core_.options.part_bytes) {
      PartsUpload parts(core_, std::move(key), std::move(file));
      co_return co_await parts.run();
    }
    co_return co_await core_.inPool<Result<>>([client = &core_.client, key, file] {
      return client->put(key, FilePart{file->fd.get(), 0, file->size});
    });
  }

  Core& core_;
  std::shared_ptr<std::atomic<bool>> stopping_;
  const Keyring& keyring_;
  std::string tenant_;
  std::shared_ptr<Spool> spool_;  // also of the pool's threads
  std::string digest_;            // once sealed
};

// --- reading

// An object and how to open it again. One thread at a time.
class OpenObject {
 public:
  OpenObject(S3Client& client, std::string key, std::shared_ptr<const TenantKeys> keys,
             std::string sha256)
      : client_(client), key_(std::move(key)), keys_(std::move(keys)), sha256_(std::move(sha256)) {}

  Result<> open() {
    sealed_ = std::make_unique<SealedReader>(TRY(openSealed()));
    return {};
  }
  [[nodiscard]] uint64_t size() const { return sealed_->size(); }

  // A blob that was written again has another salt, and its chunks do not fit the old one's.
  Result<std::string> read(uint64_t offset, size_t length) {
    auto bytes = sealed_->read(offset, length);
    if (bytes || bytes.error().code != Code::kInternal) return bytes;
    auto again = TRY(openSealed());
    if (again.salt() == sealed_->salt()) return bytes;
    *sealed_ = std::move(again);
    return sealed_->read(offset, length);
  }

 private:
  Result<SealedReader> openSealed() {
    auto object = S3Object::open(client_, key_);
    if (!object && object.error().code == Code::kNotFound) {
      return fail(Code::kNotFound, "no such blob");
    }
    std::unique_ptr<SealedBytes> bytes = TRY(std::move(object));
    auto sealed = SealedReader::open(std::move(bytes), keys_->content);
    if (!sealed) {
      return std::unexpected(std::move(sealed).error().within("opening blob " + sha256_));
    }
    if (sealed->sha256() == sha256_) return sealed;
    return fail(Code::kInternal,
                "opening blob " + sha256_ + ": in its place is " + sealed->sha256());
  }

  S3Client& client_;
  std::string key_;
  std::shared_ptr<const TenantKeys> keys_;
  std::string sha256_;
  std::unique_ptr<SealedReader> sealed_;
};

class S3Reader : public BlobReader {
 public:
  S3Reader(Core& core, std::shared_ptr<OpenObject> object)
      : core_(core), object_(std::move(object)) {}
  [[nodiscard]] uint64_t size() const override { return object_->size(); }
  Task<Result<std::string>> read(uint64_t offset, size_t length) override {
    co_return co_await core_.inPool<Result<std::string>>(
        [object = object_, offset, length] { return object->read(offset, length); });
  }

 private:
  Core& core_;
  std::shared_ptr<OpenObject> object_;
};

// --- the objects of forgotten tenants

// Removes a page of a forgotten tenant's objects, and the note about them once there are none.
Result<uint64_t> purge(Core& core, const std::string& note) {
  const std::string name = note.substr(0, note.size() - kForgotten.size());
  const auto keys = TRY(core.client.list(core.prefix + name + "/"));
  for (const std::string& key : keys)
    TRY(core.client.remove(key));
  if (keys.empty()) ::unlink((core.options.dir + "/" + note).c_str());
  return keys.size();
}

Result<uint64_t> purgeAll(Core& core) {
  uint64_t removed = 0;
  for (const std::string& file : TRY(base::listDir(core.options.dir))) {
    if (file.ends_with(kForgotten)) removed += TRY(purge(core, file));
  }
  return removed;
}

Result<uint64_t> abortAbandoned(Core& core) {
  uint64_t aborted = 0;
  const int64_t before = base::wallMicros() - core.options.abandoned_us;
  for (const S3Client::Upload& upload : TRY(core.client.uploads(core.prefix))) {
    if (upload.began_at > before) continue;
    TRY(core.client.abort(upload.key, upload.id));
    aborted++;
  }
  return aborted;
}

class BucketBlobs : public S3Blobs {
 public:
  BucketBlobs(Keyring& keyring, asio::any_io_executor executor, S3BlobsOptions options)
      : keyring_(keyring), executor_(std::move(executor)), core_(std::move(options), "/") {}
  BucketBlobs(const BucketBlobs&) = delete;
  BucketBlobs& operator=(const BucketBlobs&) = delete;
  ~BucketBlobs() override { BucketBlobs::stop(); }

  Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) override {
    auto keys = TRY(keyring_.of(tenant));
    auto spool = TRY(Spool::make(std::move(keys)));
    return std::make_unique<S3Writer>(core_, keyring_, tenant, std::move(spool));
  }

  Task<Result<std::unique_ptr<BlobReader>>> open(BlobName name) override {
    const auto keys = keyring_.find(name.tenant);
    // An invalid digest would be a name chosen by the caller.
    if (!keys || !isDigest(name.sha256)) co_return fail(Code::kNotFound, "no such blob");
    const auto object = std::make_shared<OpenObject>(core_.client, core_.keyOf(*keys, name.sha256),
                                                     keys, name.sha256);
    CO_TRY(co_await core_.inPool<Result<>>([object] { return object->open(); }));
    co_return std::make_unique<S3Reader>(core_, object);
  }

  void remove(const BlobName& name, std::function<void(Result<>)> done) override {
    const auto keys = keyring_.find(name.tenant);
    if (!keys || !isDigest(name.sha256)) return done(Result<>{});
    asio::post(core_.pool, [this, key = core_.keyOf(*keys, name.sha256), done = std::move(done)] {
      auto removed = core_.client.remove(key);
      asio::post(executor_, [done, removed = std::move(removed)] { done(removed); });
    });
  }

  Task<Result<>> forget(std::string tenant) override {
    const auto keys = keyring_.find(tenant);
    if (!keys) co_return Result<>{};
    // Before the key goes: a crash in between must not leave the objects unknown.
    const std::string note = keys->dir.substr(keys->dir.rfind('/') + 1) + std::string(kForgotten);
    CO_TRY(base::writeFileAtomic(core_.options.dir + "/" + note, "", 0600));
    CO_TRY(keyring_.forget(tenant));
    const auto purged = co_await core_.inPool<Result<uint64_t>>([this] { return purgeAll(core_); });
    if (!purged) {
      base::log(base::Level::kWarn,
                "objects of a forgotten tenant not removed, a sweep tries again",
                {{"reason", purged.error().message}});
    }
    co_return Result<>{};
  }

  Result<> recover(const Named& named) override {
    const uint64_t moved =
        TRY(moveLocalBlobs(keyring_, core_.client, core_.options.part_bytes,
                           [this](const TenantKeys& keys) { return core_.folderOf(keys); }));
    if (moved > 0) {
      base::log(base::Level::kInfo, "blobs of the state directory moved into S3",
                {{"blobs", static_cast<int64_t>(moved)}});
    }
    bool reachable = true;
    return recoverSpools(keyring_, named, [&](const BlobName& name) -> Result<> {
      const auto keys = keyring_.find(name.tenant);
      if (!keys) return {};
      if (!reachable) return fail(Code::kUnavailable, "removing a blob from S3: see above");
      auto removed = core_.client.remove(core_.keyOf(*keys, name.sha256));
      reachable = removed.has_value();
      return removed;
    });
  }

  // The last results are on their way to the executor, before it ends.
  void stop() override {
    *core_.stopping = true;
    core_.client.stop();
    core_.pool.join();
  }

  Result<> check() override { return core_.client.check(core_.prefix); }

  Task<Result<>> look() override {
    co_return co_await core_.inPool<Result<>>([this] { return check(); });
  }

  Task<Result<uint64_t>> sweep() override {
    co_return co_await core_.inPool<Result<uint64_t>>([this]() -> Result<uint64_t> {
      const uint64_t purged = TRY(purgeAll(core_));
      return purged + TRY(abortAbandoned(core_));
    });
  }

 private:
  Keyring& keyring_;
  asio::any_io_executor executor_;
  Core core_;
};

}  // namespace

std::unique_ptr<S3Blobs> openS3Blobs(Keyring& keyring, asio::any_io_executor executor,
                                     S3BlobsOptions options) {
  return std::make_unique<BucketBlobs>(keyring, std::move(executor), std::move(options));
}

}  // namespace cloister::artifacts
