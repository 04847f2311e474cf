// SPDX-License-Identifier: Apache-2.0
#include "runner/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <utility>

#include "base/fd.h"

namespace cloister::runner {

bool isPlainPath(std::string_view path) {
  if (path.empty() || path.size() >= PATH_MAX || path.contains('\0')) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

namespace {

// Replaces openat2(2), which gVisor lacks: opens component by component, without links and within
// the file system of `dir`.
int openByComponents(int dir, const char* path, int flags, mode_t mode) {
  constexpr int kNew = O_CREAT | O_EXCL;  // is where its directory is
  if ((flags & kNew) == kNew && std::strchr(path, '/') == nullptr) {
    return openat(dir, path, flags, mode);
  }
  struct stat top{};
  if (fstat(dir, &top) != 0) return -1;
  Fd reached;
  for (int at = dir;; at = reached.get()) {
    const char* slash = std::strchr(path, '/');
    const size_t size = slash == nullptr ? std::strlen(path) : static_cast<size_t>(slash - path);
    char name[NAME_MAX + 1] = {};
    if (size > NAME_MAX) return errno = ENAMETOOLONG, -1;
    std::memcpy(name, path, size);
    if (size == 0 || std::strcmp(name, "..") == 0) return errno = EXDEV, -1;
    const int how = slash == nullptr ? flags : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    Fd next(openat(at, name, how, mode));
    struct stat status{};
    // A link in the middle gives ELOOP instead of ENOTDIR, as with openat2(2).
    if (!next && slash != nullptr && errno == ENOTDIR &&
        fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      return errno = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR, -1;
    }
    if (!next || fstat(next.get(), &status) != 0) return -1;
    if (status.st_dev != top.st_dev) return errno = EXDEV, -1;
    if (slash == nullptr) return next.release();
    reached = std::move(next);
    path = slash + 1;
  }
}

// O_NONBLOCK does not wait for a lease on the file to be given up (fcntl(2), F_SETLEASE). EAGAIN is
// what runs and does not stop.
int asLease(int fd) {
  if (fd < 0 && errno == EAGAIN) errno = ENOLCK;
  return fd;
}

}  // namespace

int openBeneath(int dir, const char* path, uint64_t flags, uint64_t mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  static bool missing = false;  // avoids expensive failing calls
  if (!missing) {
    const auto fd = static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof how));
    if (fd >= 0 || errno != ENOSYS) return asLease(fd);
    missing = true;
  }
  return asLease(
      openByComponents(dir, path, static_cast<int>(how.flags), static_cast<mode_t>(mode)));
}

int makeParents(int workspace, char* path) {
  for (char* slash = std::strchr(path, '/'); slash != nullptr;
       slash = std::strchr(slash + 1, '/')) {
    *slash = '\0';
    // The parent directory was opened beneath the workspace or made here; the next open refuses a
    // link.
    const char* last = std::strrchr(path, '/');
    Fd above(last == nullptr ? dup(workspace) : -1);
    if (last != nullptr) {
      path[last - path] = '\0';
      above.reset(openBeneath(workspace, path, O_PATH | O_DIRECTORY));
      path[last - path] = '/';
    }
    const int error =
        !above || (mkdirat(above.get(), last == nullptr ? path : last + 1, 0755) != 0 &&
                   errno != EEXIST)
            ? errno
            : 0;
    *slash = '/';
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace cloister::runner
