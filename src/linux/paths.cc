// SPDX-License-Identifier: Apache-2.0
#include "linux/paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits.h>

namespace cloister::linux {

namespace {

Fd openAt(int root, const std::string& path, int flags, mode_t mode, uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(O_CLOEXEC | flags);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | resolve;
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

}  // namespace

Fd findInRoot(int root, const std::string& path, int flags, bool follow) {
  return openAt(root, path, O_PATH | flags, 0,
                follow ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS);
}

Fd openInRoot(int root, const std::string& path, int flags, mode_t mode) {
  return openAt(root, path, flags, mode, RESOLVE_NO_MAGICLINKS);
}

std::string nameOf(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  const std::string_view whole(path, n > 0 ? static_cast<size_t>(n) : 0);
  return std::string(whole.substr(whole.rfind('/') + 1));
}

}  // namespace cloister::linux
