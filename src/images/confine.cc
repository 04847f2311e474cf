// SPDX-License-Identifier: Apache-2.0
#include "images/confine.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tuple>

#include "base/file.h"
#include "linux/credentials.h"
#include "linux/landlock.h"
#include "linux/process.h"
#include "linux/seccomp.h"

namespace cloister::images {
namespace {

constexpr uint64_t kCpuSeconds = 4 * 3600;
constexpr uint64_t kDescriptors = 256;
constexpr uint32_t kReadAnything = uint32_t{1} << CAP_DAC_READ_SEARCH;
constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
// The directories that a program of the distribution needs.
constexpr const char* kSystem[] = {"/usr", "/bin", "/lib", "/lib64", "/etc"};

using linux::LandlockAccess;

Result<> setLimits() {
  TRY(linux::setResourceLimit({RLIMIT_CPU, kCpuSeconds}));
  TRY(linux::setResourceLimit({RLIMIT_CORE, 0}));
  return linux::setResourceLimit({RLIMIT_NOFILE, kDescriptors});
}

// True if this process is now alone in namespaces. Without permission for namespaces, Landlock and
// the filter still apply.
bool leaveNamespaces() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (uid == 0) return linux::unshareNamespaces(kNamespaces).has_value();
  return linux::unshareNamespaces(kNamespaces | CLONE_NEWUSER) && linux::mapSelf(uid, uid, gid);
}

}  // namespace

Result<std::vector<sock_filter>> unpackingFilter() {
  const std::string path = base::shareDir() + "/policies/seccomp/image.json";
  return TRY(linux::loadSeccomp(path)).filter;
}

Result<> confineUnpacking(const std::string& work, int directory, const std::string& input,
                          const std::vector<sock_filter>& filter) {
  TRY(setLimits());
  const bool alone = leaveNamespaces();
  TRY(linux::setNoNewPrivs());
  std::vector<linux::LandlockRule> rules = {{work, LandlockAccess::kScratch}};
  if (!input.empty()) rules.push_back({input, LandlockAccess::kReadExecute});
  TRY(linux::restrictWithLandlock(linux::landlockAbi(), rules));
  // If chroot is forbidden, as in a container, the other measures apply.
  if (alone) std::ignore = linux::changeRoot(directory);
  TRY(linux::dropCapabilities(kReadAnything));
  return linux::installSeccomp(filter);
}

Result<> confineProgram(const std::string& work) {
  TRY(setLimits());
  std::ignore = leaveNamespaces();
  TRY(linux::setNoNewPrivs());
  std::vector<linux::LandlockRule> rules = {{work, LandlockAccess::kScratch},
                                            {"/dev/null", LandlockAccess::kWriteDevice}};
  for (const char* path : kSystem) {
    if (::access(path, F_OK) == 0) rules.push_back({path, LandlockAccess::kReadExecute});
  }
  TRY(linux::restrictWithLandlock(linux::landlockAbi(), rules));
  return linux::dropCapabilities();
}

}  // namespace cloister::images
