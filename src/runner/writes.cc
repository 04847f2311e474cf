// SPDX-License-Identifier: Apache-2.0
#include "runner/writes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>
#include <tuple>

#include "base/fd.h"
#include "runner/other_user.h"
#include "runner/writable.h"

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
bool the_temporary = false;
constinit WritableList the_writable;

uint64_t changes(long abi) {
  return kChanges | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0);
}

int allow(const Fd& place, uint64_t access) {
  if (!place) return errno;
  if ((access & the_handled) == 0) return 0;
  const landlock_path_beneath_attr rule{.allowed_access = access & the_handled,
                                        .parent_fd = place.get()};
  const long done =
      syscall(SYS_landlock_add_rule, the_rules.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  return done == 0 ? 0 : errno;
}

// Refuses a link in its place, which a program may have made: landlock_add_rule(2) does not accept
// these rights for a link.
int allow(const char* path, uint64_t access) {
  return allow(Fd(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC)), access);
}

constexpr uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

// Makes the rules of all programs.
int makeRules() {
  const landlock_ruleset_attr attributes{.handled_access_fs = the_handled};
  the_rules.reset(static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0)));
  if (!the_rules) return errno;
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/pts"}) {
    if (const int error = allow(device, kWriteFile); error != 0) return error;
  }
  for (const char* place : {"/tmp", "/dev/shm"}) {
    const int error = the_temporary ? allow(place, the_handled) : 0;
    if (error != 0) return error;
  }
  return 0;
}

// No rights for an unexpected kind, such as a directory in place of a file.
uint64_t rightsFor(const WritablePlace& place, const Fd& fd) {
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return 0;
  if (!place.beneath) return S_ISREG(status.st_mode) && place.opensFile() ? kWriteFile : 0;
  if (!S_ISDIR(status.st_mode)) return 0;
  constexpr uint64_t kRemove = LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR;
  constexpr uint64_t kMake = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                             LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                             LANDLOCK_ACCESS_FS_MAKE_SOCK | kRefer;
  return (place.writes() ? kWriteFile | kMake : 0) | (place.removes() ? kRemove : 0);
}

}  // namespace

bool limitWrites(const char* where) {
  const std::string_view places(where);
  the_temporary = places == "temporary";
  if (!the_temporary && places != "none") return false;
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return false;
  the_handled = changes(abi);
  return makeRules() == 0;
}

bool setWritable(std::string_view payload) {
  return the_writable.take(payload);
}

int prepareWriteLimits() {
  if (usersAreSplit()) the_writable.forEach(openToPrograms);
  if (!the_rules) return 0;
  if (const int error = makeRules(); error != 0) return error;
  the_writable.forEach([](const WritablePlace& place) {
    if (const Fd fd = openOrMake(place)) std::ignore = allow(fd, rightsFor(place, fd));
  });
  return 0;
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
  if (usersAreSplit()) return becomeProgramUser();
  if (!the_rules) return 0;
  return syscall(SYS_landlock_restrict_self, the_rules.get(), 0) == 0 ? 0 : errno;
}

}  // namespace cloister::runner
