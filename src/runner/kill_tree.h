// SPDX-License-Identifier: Apache-2.0
// Ends a program and the program's descendants where no control group lists the descendants.
#pragma once

#include <sys/types.h>

namespace cloister::runner {

// SIGKILL to `leader`, to its session and to all descendants. Stops the processes first, until no
// running process is found, so that none can fork past the kill. Returns when all are gone, or
// after about three seconds. Does not find processes that had left the session and lost their
// parent before. A single thread only.
void killTree(pid_t leader);

}  // namespace cloister::runner
