// SPDX-License-Identifier: Apache-2.0
// Blobs in a directory of ours. A tenant's directory has tmp/<random> during the writing of a blob,
// and later also <2 digits>/<62 digits> of a keyed hash of the blob's digest. The name in tmp is
// removed with the writer. A crash leaves files in tmp for recover().
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <sodium.h>

#include "artifacts/blobs.h"
#include "artifacts/sealed_file.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"

namespace cloister::artifacts {
namespace {

using Keys = std::shared_ptr<const TenantKeys>;

constexpr size_t kDigestDigits = 64;
constexpr mode_t kDirMode = 0700;
constexpr mode_t kFileMode = 0600;

bool isDigest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<> syncDir(const std::string& path) {
  const base::Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || base::syncFile(dir.get()) != 0) return failErrno("syncing " + path);
  return {};
}

// Makes a directory without parents: a forgotten tenant's directory must not come back.
Result<> makeDir(const std::string& path) {
  if (::mkdir(path.c_str(), kDirMode) == 0 || errno == EEXIST) return {};
  return failErrno("making " + path);
}

std::string hashOf(const TenantKeys& keys, std::string_view digest) {
  unsigned char hash[kDigestDigits / 2];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(digest.data()),
                     digest.size(), keys.names.data(), Secret::kSize);
  return base::toHex({reinterpret_cast<const char*>(hash), sizeof hash});
}

struct Place {
  std::string dir;
  std::string path;
  Place(const TenantKeys& keys, std::string_view digest) {
    const std::string hash = hashOf(keys, digest);
    dir = keys.dir + "/" + hash.substr(0, 2);
    path = dir + "/" + hash.substr(2);
  }
};

class LocalWriter : public BlobWriter {
 public:
  LocalWriter(Keys keys, bool sync, std::string temporary, base::Fd file)
      : keys_(std::move(keys)),
        sync_(sync),
        temporary_(std::move(temporary)),
        sealed_(std::move(file), keys_->content) {}
  LocalWriter(const LocalWriter&) = delete;
  LocalWriter& operator=(const LocalWriter&) = delete;
  ~LocalWriter() override { ::unlink(temporary_.c_str()); }

  Result<> write(std::string_view bytes) override { return sealed_.write(bytes); }

  Result<std::string> finish() override {
    std::string digest = TRY(sealed_.finish(sync_));
    const Place place(*keys_, digest);
    TRY(makeDir(place.dir));
    // If the same content exists, replacing the blob by itself repairs any damage.
    const std::string second = temporary_ + ".named";
    if (::link(temporary_.c_str(), second.c_str()) != 0 ||
        ::rename(second.c_str(), place.path.c_str()) != 0) {
      const int error = errno;
      ::unlink(second.c_str());
      return failErrno("naming a blob", error);
    }
    if (sync_) {
      TRY(syncDir(place.dir));
      TRY(syncDir(keys_->dir));
    }
    return digest;
  }

 private:
  Keys keys_;
  bool sync_;
  std::string temporary_;
  SealedWriter sealed_;
};

class LocalReader : public BlobReader {
 public:
  explicit LocalReader(SealedReader sealed) : sealed_(std::move(sealed)) {}
  [[nodiscard]] uint64_t size() const override { return sealed_.size(); }
  Result<std::string> read(uint64_t offset, size_t length) override {
    return sealed_.read(offset, length);
  }

 private:
  SealedReader sealed_;
};

class LocalBlobs : public Blobs {
 public:
  LocalBlobs(Keyring& keyring, bool sync) : keyring_(keyring), sync_(sync) {}

  Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) override {
    Keys keys = TRY(keyring_.of(tenant));
    TRY(makeDir(keys->dir + "/tmp"));
    const std::string temporary = keys->dir + "/tmp/" + base::randomHex(16);
    base::Fd file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
    if (!file) return failErrno("making a blob");
    return std::make_unique<LocalWriter>(std::move(keys), sync_, temporary, std::move(file));
  }

  Result<std::unique_ptr<BlobReader>> open(const BlobName& name) override {
    const Keys keys = keyring_.find(name.tenant);
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
    if (sealed->sha256() != name.sha256) {
      return fail(Code::kInternal,
                  "opening blob " + name.sha256 + ": in its place is " + sealed->sha256());
    }
    return std::make_unique<LocalReader>(*std::move(sealed));
  }

  Result<> remove(const BlobName& name) override {
    const Keys keys = keyring_.find(name.tenant);
    if (!keys || !isDigest(name.sha256)) return {};
    if (::unlink(Place(*keys, name.sha256).path.c_str()) == 0 || errno == ENOENT) return {};
    return failErrno("removing blob " + name.sha256);
  }

  Result<> forget(const std::string& tenant) override { return keyring_.forget(tenant); }

  Result<> recover(const std::function<Result<bool>(const BlobName&)>& named) override {
    for (const auto& [tenant, keys] : keyring_.tenants()) {
      const std::string dir = keys->dir + "/tmp/";
      TRY(makeDir(dir));
      for (const std::string& file : TRY(base::listDir(dir)))
        TRY(settle(tenant, *keys, dir + file, named));
    }
    return {};
  }

 private:
  Result<> settle(const std::string& tenant, const TenantKeys& keys, const std::string& temporary,
                  const std::function<Result<bool>(const BlobName&)>& named) {
    base::Fd file(::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) return failErrno("opening " + temporary);
    const auto sealed = SealedReader::open(std::move(file), keys.content);
    if (sealed) {
      const BlobName name{tenant, sealed->sha256()};
      if (!TRY(named(name))) TRY(remove(name));
    }
    if (::unlink(temporary.c_str()) != 0) return failErrno("removing " + temporary);
    return {};
  }

  Keyring& keyring_;
  bool sync_;
};

}  // namespace

Result<std::unique_ptr<Blobs>> openLocalBlobs(Keyring& keyring, model::Durability durability) {
  return std::make_unique<LocalBlobs>(keyring, durability == model::Durability::kPower);
}

}  // namespace cloister::artifacts
