// SPDX-License-Identifier: Apache-2.0
// Ending a program and what it started where there are no control groups to tell who that is.
#pragma once

#include <sys/types.h>

namespace cloister::runner {

// SIGKILL to `leader`, to the session that it leads and to all their descendants. They are stopped
// first, until no running one is found any more, so that none can fork past it. Returns when they
// are gone, or after half a second. What had left the session and lost its parent before is not
// found. One thread only.
void killTree(pid_t leader);

}  // namespace cloister::runner
