// SPDX-License-Identifier: Apache-2.0
// Changes in a directory as they happen, by inotify(7). An overflow of the kernel's queue is
// reported, and the tree is read again. No directory is watched by a path that another process
// could have replaced (beneath.h).
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Reports changes in the directory `path` of the workspace ("" is the workspace), and with `all` in
// directories beneath, at most `most` in total, until the directory is gone. Returns errno.
int watchTree(int workspace, const char* path, bool all, uint32_t most, Answer& answer);

}  // namespace cloister::runner
