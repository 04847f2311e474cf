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

int openBeneath(int dir, const char* path, uint64_t flags, uint64_t mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  return static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof how));
}

int makeParents(int workspace, char* path) {
  for (char* slash = std::strchr(path, '/'); slash != nullptr;
       slash = std::strchr(slash + 1, '/')) {
    *slash = '\0';
    // The directory above was opened beneath or made here; a link in it is refused by the next
    // open.
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
