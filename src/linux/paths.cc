// SPDX-License-Identifier: Apache-2.0
#include "linux/paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cloister::linux {

Fd findInRoot(int root, const std::string& path, int flags, bool follow) {
  open_how how{};
  how.flags = static_cast<uint64_t>(O_PATH | O_CLOEXEC | flags);
  how.resolve = RESOLVE_IN_ROOT | (follow ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS);
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

}  // namespace cloister::linux
