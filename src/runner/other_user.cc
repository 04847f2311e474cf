// SPDX-License-Identifier: Apache-2.0
#include "runner/other_user.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/directory.h"

namespace cloister::runner {
namespace {

constexpr uid_t kOwner = 1000;
constexpr uid_t kProgram = 1001;
constexpr uid_t kAsIs = static_cast<uid_t>(-1);
constexpr uint32_t kDeepest = 32;  // maximum depth opened beneath a directory
constexpr mode_t kGroupFile = 0060;
constexpr mode_t kGroupDirectory = 0070;

bool is_split = false;

// A raw call, not the C library's: programs begin in a process that shares its memory with the
// runner.
int setUsers(uid_t real, uid_t effective, uid_t saved) {
  return syscall(SYS_setresuid, real, effective, saved) == 0 ? 0 : errno;
}

void openFile(int fd, const struct stat& status) {
  if (status.st_uid == kOwner && status.st_nlink == 1)
    fchmod(fd, (status.st_mode & 0777) | kGroupFile);
}

// Without the right to remove others' files, each program may remove its own (chmod(2), the sticky
// bit).
void openDirectory(int fd, const struct stat& status, bool removes, uint32_t depth) {
  if (status.st_uid != kOwner) return;
  fchmod(fd, (status.st_mode & 0777) | kGroupDirectory | (removes ? 0 : S_ISVTX));
  if (depth == 0) return;
  forEachEntry(fd, [&](const char* name) {
    const Fd entry(openBeneath(fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    struct stat inner{};
    if (!entry || fstat(entry.get(), &inner) != 0) return 0;
    if (S_ISREG(inner.st_mode)) openFile(entry.get(), inner);
    if (S_ISDIR(inner.st_mode)) openDirectory(entry.get(), inner, removes, depth - 1);
    return 0;
  });
}

}  // namespace

bool splitUsers() {
  is_split = setUsers(kProgram, kOwner, kOwner) == 0 && getuid() == kProgram && geteuid() == kOwner;
  return is_split;
}

bool becomeOwner() {
  return setUsers(kOwner, kOwner, kOwner) == 0 && getuid() == kOwner && geteuid() == kOwner;
}

bool dropBounds() {
  for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (prctl(PR_CAPBSET_DROP, each, 0, 0, 0) != 0) return false;
  }
  return true;
}

bool usersAreSplit() {
  return is_split;
}

int becomeProgramUser() {
  return setUsers(kProgram, kProgram, kProgram);
}

AsProgramUser::AsProgramUser() {
  if (is_split) setUsers(kAsIs, kProgram, kAsIs);
}

AsProgramUser::~AsProgramUser() {
  if (is_split && setUsers(kAsIs, kOwner, kAsIs) != 0) _exit(1);
}

mode_t modeOfBrought(mode_t mode) {
  return is_split ? (mode & 0755) | ((mode & 0500) >> 3) : mode;
}

void openToPrograms(const WritablePlace& place) {
  if (!place.writes()) return;
  const Fd found = openOrMake(place);
  struct stat status{};
  if (!found || fstat(found.get(), &status) != 0) return;
  if (!place.beneath && S_ISREG(status.st_mode) && place.opensFile()) {
    openFile(found.get(), status);
  }
  if (place.beneath && S_ISDIR(status.st_mode)) {
    openDirectory(found.get(), status, place.removes(), kDeepest);
  }
}

}  // namespace cloister::runner
