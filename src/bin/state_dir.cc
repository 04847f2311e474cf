// SPDX-License-Identifier: Apache-2.0
#include "bin/state_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "artifacts/blobs.h"
#include "base/crypto.h"
#include "base/file.h"
#include "bin/admin_key.h"

namespace cloister {
namespace {

// Changes the owner of a path whose parent only we can write, so that the path cannot be replaced
// meanwhile.
Result<> give(const std::string& path, linux::User to, mode_t mode) {
  if (::lchown(path.c_str(), to.uid, to.gid) != 0) return failErrno("giving away " + path);
  if (::chmod(path.c_str(), mode) != 0) return failErrno("setting the mode of " + path);
  return {};
}

Result<> makeDir(const std::string& path, linux::User owner, mode_t mode) {
  TRY(base::makeDirs(path, mode));
  return give(path, owner, mode);
}

Result<> makeKeyPair(const std::string& stem, linux::User owner) {
  const base::SigningKey key = TRY(base::SigningKey::loadOrCreate(stem + ".key"));
  TRY(give(stem + ".key", owner, 0600));
  const std::string shown = key.verifyKey().base64() + "\n";
  if (base::readFile(stem + ".pub", 4096) == shown) return {};  // the disk may be full
  return base::writeFileAtomic(stem + ".pub", shown, 0644);
}

}  // namespace

Result<linux::User> serviceUser(const model::Config& config) {
  if (::geteuid() != 0) return linux::User{::geteuid(), ::getegid()};
  const auto named = linux::findUser(config.user);
  if (named && named->uid == 0) return fail(Code::kInvalid, "user: must not be root", "user");
  return linux::serviceUser(config.user, model::kFallbackId);
}

std::string masterKeyFile(const model::Config& config, const std::string& state) {
  if (!config.artifacts.master_key_file.empty()) {
    return config.artifacts.master_key_file;
  }
  const char* credentials = ::getenv("CREDENTIALS_DIRECTORY");  // systemd.exec(5)
  if (credentials != nullptr) {
    std::string path = std::string(credentials) + "/cloister.artifacts-key";
    if (::access(path.c_str(), F_OK) == 0) return path;
  }
  return state + "/keys/artifacts.key";
}

namespace {

Result<> makeMasterKey(const model::Config& config, const std::string& state, linux::User owner) {
  const std::string own = state + "/keys/artifacts.key";
  if (masterKeyFile(config, state) != own) return {};
  TRY(artifacts::ensureMasterKey(own));
  return give(own, owner, 0600);
}

}  // namespace

Result<> prepareState(const model::Config& config, const std::string& state) {
  const linux::User service = TRY(serviceUser(config));
  const linux::User self{::geteuid(), ::getegid()};
  TRY(base::makeDirs(state, 0755));
  TRY(ensureAdminKey(state + "/admin.key"));
  TRY(makeDir(state + "/keys", self, 0755));
  TRY(makeKeyPair(state + "/keys/permit", service));
  TRY(makeKeyPair(state + "/keys/audit", service));
  TRY(makeMasterKey(config, state, service));
  TRY(makeDir(state + "/ledger", service, 0700));
  TRY(makeDir(state + "/blobs", service, 0700));
  return makeDir(state + "/cache", self, 0755);
}

}  // namespace cloister
