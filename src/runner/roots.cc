// SPDX-License-Identifier: Apache-2.0
#include "runner/roots.h"

#include <errno.h>
#include <fcntl.h>

#include "wire/files.h"

namespace cloister::runner {

RootOf::RootOf(int workspace, const char*& path) : fd_(workspace) {
  if (*path != '/') return;
  fd_ = -1;
  errno = EINVAL;
  for (const model::FileRoot& root : model::kFileRoots) {
    if (!wire::files::isWithin(path, root.path)) continue;
    path += root.path.size();
    if (*path == '/') ++path;
    opened_.reset(open(root.path.data(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    fd_ = opened_.get();
    return;
  }
}

}  // namespace cloister::runner
