// SPDX-License-Identifier: Apache-2.0
// Blobs in a directory of ours. A tenant's directory has tmp/<random> during the writing of a blob
// (spool.h), and later also <2 digits>/<62 digits> of a keyed hash of the blob's digest. The name
// in tmp is removed with the writer. A crash leaves files in tmp for recover().
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "artifacts/blobs.h"
#include "artifacts/sealed_file.h"
#include "artifacts/spool.h"
#include "async/awaiting.h"
#include "base/fd.h"
#include "base/file.h"

namespace cloister::artifacts {
namespace {

using boost::asio::thread_pool;

Result<> syncDir(const std::string& path) {
  const base::Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || base::syncFile(dir.get()) != 0) return failErrno("syncing " + path);
  return {};
}

struct Place {
  std::string dir;
  std::string path;
  Place(const TenantKeys& keys, std::string_view digest) {
    path = keys.dir + "/" + placeOf(keys, digest);
    dir = path.substr(0, path.rfind('/'));
  }
};

// If the same content exists, replacing the blob by itself repairs any damage.
Result<> nameSpool(const Spool& spool, const std::string& digest, bool sync) {
  const Place place(spool.keys(), digest);
  TRY(makeTenantDir(place.dir));
  const std::string second = spool.path() + ".named";
  if (::link(spool.path().c_str(), second.c_str()) != 0 ||
      ::rename(second.c_str(), place.path.c_str()) != 0) {
    const int error = errno;
    ::unlink(second.c_str());
    return failErrno("naming a blob", error);
  }
  if (!sync) return {};
  TRY(syncDir(place.dir));
  return syncDir(spool.keys().dir);
}

// Without a sync the end of a blob takes less time than a change of the thread.
class LocalWriter : public BlobWriter {
 public:
  LocalWriter(std::unique_ptr<Spool> spool, bool sync, thread_pool& background)
      : spool_(std::move(spool)), sync_(sync), background_(background) {}

  Result<> write(std::string_view bytes) override { return spool_->write(bytes); }

  Task<Result<std::string>> seal() override {
    auto digest = sync_ ? co_await async::inBackground<Result<std::string>>(
                              background_, [spool = spool_] { return spool->seal(true); })
                        : spool_->seal(false);
    if (digest) digest_ = *digest;
    co_return digest;
  }

  Task<Result<>> keep() override {
    const std::string digest = std::exchange(digest_, {});
    if (digest.empty()) co_return fail(Code::kInternal, "naming a blob: it is not sealed");
    if (!sync_) co_return nameSpool(*spool_, digest, false);
    co_return co_await async::inBackground<Result<>>(
        background_, [spool = spool_, digest] { return nameSpool(*spool, digest, true); });
  }

 private:
  std::shared_ptr<Spool> spool_;  // also of the background thread
  bool sync_;
  thread_pool& background_;
  std::string digest_;  // once sealed
};

class LocalReader : public BlobReader {
 public:
  LocalReader(SealedReader sealed, thread_pool& background)
      : sealed_(std::make_shared<const SealedReader>(std::move(sealed))), background_(background) {}
  [[nodiscard]] uint64_t size() const override { return sealed_->size(); }
  Task<Result<std::string>> read(uint64_t offset, size_t length) override {
    co_return co_await async::inBackground<Result<std::string>>(
        background_, [sealed = sealed_, offset, length] { return sealed->read(offset, length); });
  }

 private:
  std::shared_ptr<const SealedReader> sealed_;
  thread_pool& background_;
};

class LocalBlobs : public Blobs {
 public:
  LocalBlobs(Keyring& keyring, bool sync, thread_pool& background)
      : keyring_(keyring), sync_(sync), background_(background) {}

  Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) override {
    auto keys = TRY(keyring_.of(tenant));
    auto spool = TRY(Spool::make(std::move(keys)));
    return std::make_unique<LocalWriter>(std::move(spool), sync_, background_);
  }

  Task<Result<std::unique_ptr<BlobReader>>> open(BlobName name) override {
    auto sealed = openSealed(name);
    if (!sealed) co_return std::unexpected(std::move(sealed).error());
    co_return std::make_unique<LocalReader>(*std::move(sealed), background_);
  }

  void remove(const BlobName& name, std::function<void(Result<>)> done) override {
    done(unlinkBlob(name));
  }

  Task<Result<>> forget(std::string tenant) override { co_return keyring_.forget(tenant); }

  Result<> recover(const Named& named) override {
    return recoverSpools(keyring_, named,
                         [this](const BlobName& name) { return unlinkBlob(name); });
  }

 private:
  Result<SealedReader> openSealed(const BlobName& name) {
    const auto keys = keyring_.find(name.tenant);
    // An invalid digest would be a path chosen by the caller.
    if (!keys || !isDigest(name.sha256)) return fail(Code::kNotFound, "no such blob");
    base::Fd file(
        ::open(Place(*keys, name.sha256).path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file && errno == ENOENT) return fail(Code::kNotFound, "no such blob");
    if (!file) return failErrno("opening blob " + name.sha256);
    auto sealed = SealedReader::open(std::move(file), keys->content);
    if (!sealed) {
      return std::unexpected(std::move(sealed).error().within("opening blob " + name.sha256));
    }
    if (sealed->sha256() == name.sha256) return sealed;
    return fail(Code::kInternal,
                "opening blob " + name.sha256 + ": in its place is " + sealed->sha256());
  }

  Result<> unlinkBlob(const BlobName& name) {
    const auto keys = keyring_.find(name.tenant);
    if (!keys || !isDigest(name.sha256)) return {};
    if (::unlink(Place(*keys, name.sha256).path.c_str()) == 0 || errno == ENOENT) return {};
    return failErrno("removing blob " + name.sha256);
  }

  Keyring& keyring_;
  bool sync_;
  thread_pool& background_;
};

}  // namespace

Result<std::unique_ptr<Blobs>> openLocalBlobs(Keyring& keyring, model::Durability durability,
                                              thread_pool& background) {
  return std::make_unique<LocalBlobs>(keyring, durability == model::Durability::kPower, background);
}

}  // namespace cloister::artifacts
