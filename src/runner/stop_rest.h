// SPDX-License-Identifier: Apache-2.0
// Stops all processes of the sandbox except the runner and the caller, so that files do not change
// while being read; signal(7). Processes that were stopped before stay stopped. For the file
// server, whose process has one thread and calls this once.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cloister::runner {

// Stops all other processes. Returns 0 when none runs any more; EAGAIN on timeout, or for too many
// processes.
int stopRest();
// Whether a process runs nevertheless, started meanwhile.
bool anyStarted();
// Resumes the processes stopped by stopRest().
void continueRest();

// Called by the runner before making a copy of itself: names the copies that change nothing in the
// workspace.
void noteServer(pid_t pid);
void forgetServers();
// Whether another process exists besides the runner, this process and noted servers, in any state.
// True as well if processes come and go too fast to tell.
bool anyOther();

}  // namespace cloister::runner
