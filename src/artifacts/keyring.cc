// SPDX-License-Identifier: Apache-2.0
#include "artifacts/keyring.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>

#include <sodium.h>

#include "artifacts/aead.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"

namespace cloister::artifacts {
namespace {

constexpr std::string_view kMagic = "CLKEY01\n";
constexpr size_t kNameBytes = 16;
constexpr std::string_view kGone = ".gone";
constexpr char kContext[crypto_kdf_CONTEXTBYTES + 1] = "cloister";
enum Purpose : uint64_t { kContent = 1, kNames = 2, kLinks = 3, kRecords = 4, kCursors = 5 };

static_assert(Secret::kSize == crypto_kdf_KEYBYTES);

Secret derive(const Secret& key, Purpose purpose) {
  unsigned char out[Secret::kSize];
  crypto_kdf_derive_from_key(out, sizeof out, purpose, kContext, key.data());
  Secret derived(std::string_view(reinterpret_cast<const char*>(out), sizeof out));
  sodium_memzero(out, sizeof out);
  return derived;
}

// Binds a wrapped key to its tenant: another tenant's key cannot take its place.
std::string boundTo(const std::string& name) {
  return std::string(kMagic) + name;
}

std::string wrapped(const Secret& master, const std::string& name, std::string_view plain) {
  const std::string nonce = randomNonce();
  return std::string(kMagic) + nonce + seal(master, nonce, boundTo(name), plain);
}

// False unless wrapped by this key.
bool unwrap(const Secret& master, const std::string& name, std::string_view sealed,
            std::string& plain) {
  const size_t head = kMagic.size() + kNonceBytes;
  if (!sealed.starts_with(kMagic) || sealed.size() < head) return false;
  return unseal(master, sealed.substr(kMagic.size(), kNonceBytes), boundTo(name),
                sealed.substr(head), plain);
}

bool isHex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Overwrites before unlinking, which is the most a file system permits.
void shred(const std::string& path) {
  const base::Fd file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (file && ::fstat(file.get(), &status) == 0) {
    std::string noise(static_cast<size_t>(status.st_size), '\0');
    randombytes_buf(noise.data(), noise.size());
    if (::pwrite(file.get(), noise.data(), noise.size(), 0) >= 0) ::fsync(file.get());
  }
  ::unlink(path.c_str());
}

Result<> removeTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return failErrno("removing " + path, error.value());
  return {};
}

// Removes the leftovers of a crash while writing a key.
Result<> removeUnfinished(const std::string& path) {
  for (const std::string& name : TRY(base::listDir(path))) {
    if (name.starts_with("key.")) ::unlink((path + "/" + name).c_str());
  }
  return {};
}

// Removes a directory that has no key yet after a crash: such a directory is empty.
Result<> removeUnkeyed(const std::string& path) {
  if (::rmdir(path.c_str()) == 0) return {};
  return fail(Code::kInvalid, "opening " + path +
                                  ": the key of its artifacts is missing; put it back from a "
                                  "backup, or remove the directory: nothing in it can be read");
}

}  // namespace

Secret::Secret(std::string_view bytes) {
  if (bytes.size() != kSize) std::abort();
  std::memcpy(bytes_, bytes.data(), kSize);
}

Secret::~Secret() {
  sodium_memzero(bytes_, kSize);
}

Secret Secret::random() {
  Secret made;
  randombytes_buf(made.bytes_, kSize);
  return made;
}

Result<std::vector<Secret>> readMasterKeys(const std::string& path) {
  constexpr size_t kMost = 65'536;
  std::string text = TRY(base::readFile(path, kMost));
  std::vector<Secret> keys;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    auto key = base::fromBase64(line);
    if (!key || key->size() != Secret::kSize) {
      return fail(Code::kInvalid, "reading " + path + ": line " + std::to_string(number) +
                                      " must be base64 of 32 bytes");
    }
    keys.emplace_back(*key);
    sodium_memzero(key->data(), key->size());
  }
  sodium_memzero(text.data(), text.size());
  if (keys.empty()) {
    return fail(Code::kInvalid, "reading " + path +
                                    ": it must have a line with a key, base64 of "
                                    "32 bytes");
  }
  return keys;
}

Result<> ensureMasterKey(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return {};
  return base::writeFileAtomic(path, base::toBase64(Secret::random().view()) + "\n", 0600);
}

Keyring::Keyring(std::string dir, std::vector<Secret> masters)
    : dir_(std::move(dir)), masters_(std::move(masters)) {}

Result<std::unique_ptr<Keyring>> Keyring::open(std::string dir, std::vector<Secret> masters) {
  if (sodium_init() < 0) return fail(Code::kUnsupported, "starting libsodium: it refuses");
  if (masters.empty()) return fail(Code::kInvalid, "opening " + dir + ": there is no master key");
  std::unique_ptr<Keyring> keyring(new Keyring(dir, std::move(masters)));
  for (const std::string& name : TRY(base::listDir(dir)))
    TRY(keyring->load(name));
  return keyring;
}

Result<> Keyring::load(const std::string& name) {
  const std::string path = dir_ + "/" + name;
  if (name.ends_with(kGone)) return removeTree(path);
  if (isHex(name, 2)) {
    return fail(Code::kInvalid, "opening " + dir_ +
                                    ": it has unencrypted artifacts of an earlier version (" +
                                    path + "); move them away, they are not read any more");
  }
  if (!isHex(name, 2 * kNameBytes)) return {};
  TRY(removeUnfinished(path));
  const auto sealed = base::readFile(path + "/key");
  if (!sealed && sealed.error().code == Code::kNotFound) return removeUnkeyed(path);
  if (!sealed) return std::unexpected(sealed.error());
  for (size_t i = 0; i < masters_.size(); ++i) {
    std::string plain;
    if (!unwrap(masters_[i], name, *sealed, plain) || plain.size() < Secret::kSize) continue;
    const Secret key(std::string_view(plain).substr(0, Secret::kSize));
    const std::string tenant = plain.substr(Secret::kSize);
    sodium_memzero(plain.data(), plain.size());
    if (const auto other = find(tenant)) {
      return fail(Code::kInvalid, "opening " + path + ": " + other->dir +
                                      " has a key of tenant \"" + tenant +
                                      "\" too; move away the one that is not in use");
    }
    if (i > 0) TRY(wrap(name, key, tenant));
    add(name, key, tenant);
    return {};
  }
  return fail(Code::kInvalid, "opening " + path +
                                  "/key: it is damaged, or under another master key; add the key "
                                  "that it was made under as another line of the master key file");
}

Result<> Keyring::wrap(const std::string& name, const Secret& key,
                       const std::string& tenant) const {
  std::string plain = std::string(key.view()) + tenant;
  const std::string sealed = wrapped(masters_.front(), name, plain);
  sodium_memzero(plain.data(), plain.size());
  return base::writeFileAtomic(dir_ + "/" + name + "/key", sealed, 0600);
}

void Keyring::add(const std::string& name, const Secret& key, const std::string& tenant) {
  tenants_[tenant] =
      std::make_shared<const TenantKeys>(TenantKeys{.dir = dir_ + "/" + name,
                                                    .content = derive(key, kContent),
                                                    .names = derive(key, kNames),
                                                    .links = derive(key, kLinks),
                                                    .records = derive(key, kRecords),
                                                    .cursors = derive(key, kCursors)});
}

Result<> Keyring::keep(const std::string& name, const Secret& key,
                       const std::string& tenant) const {
  TRY(wrap(name, key, tenant));
  const base::Fd dir(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || base::syncFile(dir.get()) != 0) return failErrno("syncing " + dir_);
  return {};
}

Result<std::shared_ptr<const TenantKeys>> Keyring::of(const std::string& tenant) {
  if (auto known = find(tenant)) return known;
  const std::string name = base::randomHex(kNameBytes);
  const std::string path = dir_ + "/" + name;
  if (::mkdir(path.c_str(), 0700) != 0) return failErrno("making " + path);
  const Secret key = Secret::random();
  if (auto kept = keep(name, key, tenant); !kept) {
    std::ignore = removeTree(path);  // an unused key must not be found later
    return std::unexpected(std::move(kept).error());
  }
  add(name, key, tenant);
  return find(tenant);
}

std::shared_ptr<const TenantKeys> Keyring::find(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : found->second;
}

Result<> Keyring::forget(const std::string& tenant) {
  const auto keys = find(tenant);
  if (!keys) return {};
  tenants_.erase(tenant);
  // A crash from here on is finished by the next open().
  const std::string gone = keys->dir + std::string(kGone);
  if (::rename(keys->dir.c_str(), gone.c_str()) != 0) return failErrno("forgetting " + keys->dir);
  shred(gone + "/key");
  return removeTree(gone);
}

}  // namespace cloister::artifacts
