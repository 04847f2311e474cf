// SPDX-License-Identifier: Apache-2.0
// Changes in a directory as they happen, by inotify(7). What the kernel's queue does not hold is
// told as an overflow, and the tree is gone through again; no directory is watched by a path that
// another could have swapped (beneath.h).
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Reports changes in the directory `path` of the workspace ("" is the workspace), and with `all` in
// directories beneath, at most `most` in total, until the directory is gone. Returns errno.
int watchTree(int workspace, const char* path, bool all, uint32_t most, Answer& answer);

}  // namespace cloister::runner
