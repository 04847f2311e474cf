// SPDX-License-Identifier: Apache-2.0
#include "artifacts/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <sodium.h>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"

namespace cloister::artifacts {
namespace {

constexpr size_t kHashBytes = 32;
constexpr mode_t kOwnDir = 0700;
constexpr mode_t kOwnFile = 0600;

Result<> settleSpool(const std::string& tenant, const TenantKeys& keys, const std::string& path,
                     const Blobs::Named& named,
                     const std::function<Result<>(const BlobName&)>& remove) {
  base::Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return failErrno("opening " + path);
  const auto sealed = SealedReader::open(std::move(file), keys.content);
  if (sealed) {
    const BlobName name{tenant, sealed->sha256()};
    if (!TRY(named(name))) {
      if (const auto removed = remove(name); !removed) {
        base::log(base::Level::kWarn, "unnamed blob not removed, the next start tries again",
                  {{"reason", removed.error().message}});
        return {};
      }
    }
  }
  if (::unlink(path.c_str()) != 0) return failErrno("removing " + path);
  return {};
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::make(std::shared_ptr<const TenantKeys> keys) {
  TRY(makeTenantDir(keys->dir + "/tmp"));
  const std::string path = keys->dir + "/tmp/" + base::randomHex(16);
  base::Fd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (!file) return failErrno("making a blob");
  return std::unique_ptr<Spool>(new Spool(std::move(keys), path, std::move(file)));
}

Spool::Spool(std::shared_ptr<const TenantKeys> keys, std::string path, base::Fd file)
    : keys_(std::move(keys)), path_(std::move(path)), sealed_(std::move(file), keys_->content) {}

Spool::~Spool() {
  if (!left_) ::unlink(path_.c_str());
}

std::string placeOf(const TenantKeys& keys, std::string_view digest) {
  unsigned char hash[kHashBytes];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(digest.data()),
                     digest.size(), keys.names.data(), Secret::kSize);
  const std::string hex = base::toHex({reinterpret_cast<const char*>(hash), sizeof hash});
  return hex.substr(0, 2) + "/" + hex.substr(2);
}

Result<> recoverSpools(const Keyring& keyring, const Blobs::Named& named,
                       const std::function<Result<>(const BlobName&)>& remove) {
  for (const auto& [tenant, keys] : keyring.tenants()) {
    const std::string dir = keys->dir + "/tmp/";
    TRY(makeTenantDir(dir));
    for (const std::string& file : TRY(base::listDir(dir)))
      TRY(settleSpool(tenant, *keys, dir + file, named, remove));
  }
  return {};
}

Result<> makeTenantDir(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnDir) == 0 || errno == EEXIST) return {};
  return failErrno("making " + path);
}

}  // namespace cloister::artifacts
