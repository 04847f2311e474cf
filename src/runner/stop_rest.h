// SPDX-License-Identifier: Apache-2.0
// Stopping all that runs in the sandbox but the runner and the caller, to read files that do not
// change meanwhile; signal(7). What was stopped before stays so. For the file server, whose process
// has one thread and does this once.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cloister::runner {

// Once nothing runs any more, 0; EAGAIN when that does not come to be, or there are too many.
int stopRest();
// Whether something runs all the same: it was started meanwhile.
bool anyStarted();
// Lets go on what stopRest() stopped.
void continueRest();

// By the runner, for the copy of it that is about to be made: its copies that serve and change
// nothing in the workspace.
void noteServer(pid_t pid);
void forgetServers();
// Whether there is any process but the runner, this one and those, whatever it does at present; or
// so many come and go that it cannot be told.
bool anyOther();

}  // namespace cloister::runner
