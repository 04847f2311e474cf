// SPDX-License-Identifier: Apache-2.0
// The way between a runner's stream and the node's.
#pragma once

#include "guest/sandbox.h"

namespace cloister::guest {

// Passes on the runner's first word, and then waits until the node wakes this machine, which may be
// one of many that began alike (wire/guest.h). The machine ends where anything else comes.
void sleepUntilWoken(int runner, int node);

// Carries both ways between `runner`, the other end of the stream that the sandbox's runner has,
// and `node`; its counts too, before each of the runner's kExited. Returns when the runner has
// ended; those are then the last that is said. When the node hangs up, the runner is ended.
void relay(Sandbox& sandbox, int runner, int node);

}  // namespace cloister::guest
