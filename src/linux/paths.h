// SPDX-License-Identifier: Apache-2.0
// Looking for things in a file system that somebody else has put together.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"

namespace cloister::linux {

// What is at `path` below the directory `root`, as an O_PATH descriptor: links lead no further than
// the root, and magic links nowhere; openat2(2) RESOLVE_IN_ROOT. `flags` are of open(2);
// `follow`: links are followed at all. No descriptor where there is nothing, with errno.
Fd findInRoot(int root, const std::string& path, int flags = 0, bool follow = true);

// The same, open for use as `flags` say, which may make a file with `mode`.
Fd openInRoot(int root, const std::string& path, int flags, mode_t mode = 0);

// The last part of the name that `fd` was opened by, behind every link; "" if there is none.
std::string nameOf(int fd);

}  // namespace cloister::linux
