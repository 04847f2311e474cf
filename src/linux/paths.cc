// SPDX-License-Identifier: Apache-2.0
#include "linux/paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits.h>

namespace cloister::linux {

Fd findInRoot(int root, const std::string& path, int flags, bool follow) {
  open_how how{};
  how.flags = static_cast<uint64_t>(O_PATH | O_CLOEXEC | flags);
  how.resolve = RESOLVE_IN_ROOT | (follow ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS);
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

std::string nameOf(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  const std::string_view whole(path, n > 0 ? static_cast<size_t>(n) : 0);
  return std::string(whole.substr(whole.rfind('/') + 1));
}

}  // namespace cloister::linux
