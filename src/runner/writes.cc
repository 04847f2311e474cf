// SPDX-License-Identifier: Apache-2.0
#include "runner/writes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "base/fd.h"

namespace cloister::runner {
namespace {

// Later than the build's kernel headers may be; numbers are the kernel's ABI.
constexpr uint64_t kRefer = 1ULL << 13;     // ABI 2
constexpr uint64_t kTruncate = 1ULL << 14;  // ABI 3
constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kChanges = ((1ULL << 13) - 1) & ~kRead;  // of ABI 1

constinit Fd the_rules;
uint64_t the_handled = 0;

uint64_t changes(long abi) {
  return kChanges | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0);
}

// A link in its place, which a program may have put there, is refused: landlock_add_rule(2) takes
// these rights for no such file.
int allow(const char* path, uint64_t access) {
  const Fd place(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place) return errno;
  const landlock_path_beneath_attr rule{.allowed_access = access & the_handled,
                                        .parent_fd = place.get()};
  const long done =
      syscall(SYS_landlock_add_rule, the_rules.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  return done == 0 ? 0 : errno;
}

}  // namespace

bool limitWrites(const char* where) {
  const std::string_view places(where);
  const bool temporary = places == "temporary";
  if (!temporary && places != "none") return false;
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return false;
  the_handled = changes(abi);
  const landlock_ruleset_attr attributes{.handled_access_fs = the_handled};
  the_rules.reset(static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0)));
  if (!the_rules) return false;
  constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/pts"}) {
    if (allow(device, kWrite) != 0) return false;
  }
  for (const char* place : {"/tmp", "/dev/shm"}) {
    if (temporary && allow(place, the_handled) != 0) return false;
  }
  return true;
}

int allowWritingBeneath(const char* dir) {
  return the_rules ? allow(dir, the_handled) : 0;
}

unsigned keepWriteLimits(int at) {
  const auto first = static_cast<unsigned>(at);
  if (!the_rules || dup3(the_rules.get(), at, O_CLOEXEC) < 0) return first;
  the_rules.reset(at);
  return first + 1;
}

int enterWriteLimits() {
  if (!the_rules) return 0;
  return syscall(SYS_landlock_restrict_self, the_rules.get(), 0) == 0 ? 0 : errno;
}

}  // namespace cloister::runner
