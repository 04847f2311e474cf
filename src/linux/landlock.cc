// SPDX-License-Identifier: Apache-2.0
#include "linux/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace cloister::linux {
namespace {

// Later than the build's kernel headers may be; numbers are the kernel's ABI.
constexpr uint64_t kRefer = 1ULL << 13;     // ABI 2
constexpr uint64_t kTruncate = 1ULL << 14;  // ABI 3
constexpr uint64_t kIoctlDev = 1ULL << 15;  // ABI 5
constexpr uint64_t kScopeAll = 0x3;         // ABI 6: abstract Unix sockets, signals
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;  // ABI 4
  uint64_t scoped;              // ABI 6
};

constexpr uint64_t kBaseAccess = (1ULL << 13) - 1;  // ABI 1
constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kDeviceNodes = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;

uint64_t handled(int abi) {
  return kBaseAccess | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0) |
         (abi >= 5 ? kIoctlDev : 0);
}

uint64_t allowed(LandlockAccess access) {
  switch (access) {
    case LandlockAccess::kReadExecute:
      return kRead;
    case LandlockAccess::kReadFile:
      return LANDLOCK_ACCESS_FS_READ_FILE;
    case LandlockAccess::kWriteDevice:
      return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    case LandlockAccess::kTerminal:
      return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
             LANDLOCK_ACCESS_FS_READ_DIR | kIoctlDev;
    case LandlockAccess::kSockets:
      return LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;
    case LandlockAccess::kControl:
      return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kIoctlDev;
    case LandlockAccess::kScratch:
      return (kBaseAccess & ~kDeviceNodes) | kRefer | kTruncate;
  }
  return 0;
}

Result<> addRule(int ruleset, int abi, const LandlockRule& rule) {
  const Fd place(::open(rule.path.c_str(), O_PATH | O_CLOEXEC));
  if (!place) return failErrno("landlock: opening " + rule.path);
  const landlock_path_beneath_attr attr{.allowed_access = allowed(rule.access) & handled(abi),
                                        .parent_fd = place.get()};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) != 0) {
    return failErrno("landlock: allowing " + rule.path);
  }
  return {};
}

}  // namespace

int landlockAbi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

std::string_view landlockAccessName(LandlockAccess access) {
  switch (access) {
    case LandlockAccess::kReadExecute:
      return "read, execute";
    case LandlockAccess::kReadFile:
      return "read";
    case LandlockAccess::kWriteDevice:
      return "read, write";
    case LandlockAccess::kTerminal:
    case LandlockAccess::kControl:
      return "read, write, ioctl";
    case LandlockAccess::kSockets:
      return "make and remove sockets";
    case LandlockAccess::kScratch:
      return "read, execute, write, make, remove";
  }
  return "";
}

Result<> restrictWithLandlock(int abi, const std::vector<LandlockRule>& rules) {
  if (abi <= 0) return {};
  const RulesetAttributes attr{handled(abi), 0, abi >= 6 ? kScopeAll : 0};
  const size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
  const Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, size, 0)));
  if (!ruleset) return failErrno("landlock_create_ruleset");
  for (const LandlockRule& rule : rules)
    TRY(addRule(ruleset.get(), abi, rule));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return failErrno("landlock_restrict_self");
  }
  return {};
}

}  // namespace cloister::linux
