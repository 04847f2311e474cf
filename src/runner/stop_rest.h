// SPDX-License-Identifier: Apache-2.0
// Stopping all that runs in the sandbox but the runner and the caller, to read files that do not
// change meanwhile; signal(7). What was stopped before stays so. For the file server, whose process
// has one thread and does this once.
#pragma once

namespace cloister::runner {

// Once nothing runs any more, 0; EAGAIN when that does not come to be, or there are too many.
int stopRest();
// Whether something runs all the same: it was started meanwhile.
bool anyStarted();
// Lets go on what stopRest() stopped.
void continueRest();

}  // namespace cloister::runner
