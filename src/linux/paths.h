// SPDX-License-Identifier: Apache-2.0
// Finding files in a file system of untrusted origin.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"

namespace cloister::linux {

// An O_PATH descriptor of `path` below the directory `root`: links lead no further than the root,
// and magic links nowhere; openat2(2) RESOLVE_IN_ROOT. `flags`: of open(2); `follow`: follow links
// at all. No descriptor if nothing exists, with errno.
Fd findInRoot(int root, const std::string& path, int flags = 0, bool follow = true);

// The same, opened for use with `flags`, which may create a file with `mode`.
Fd openInRoot(int root, const std::string& path, int flags, mode_t mode = 0);

// The last part of the name of the file open at `fd`, with all links resolved; "" if none.
std::string nameOf(int fd);

}  // namespace cloister::linux
