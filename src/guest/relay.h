// SPDX-License-Identifier: Apache-2.0
// The way between a runner's stream and the node's.
#pragma once

#include "base/fd.h"
#include "guest/sandbox.h"

namespace cloister::guest {

// Passes on the runner's first word, and then waits until the node wakes this machine, which may be
// one of many that began alike (wire/guest.h). The machine ends where anything else comes. A port
// that can be opened again is, as often as it takes: no connection outlives the keeping of a
// machine, and `node` is the one on which it was woken.
void sleepUntilWoken(int runner, Fd& node);

// Carries both ways between `runner`, the other end of the stream that the sandbox's runner has,
// and `node`; its counts too, before each of the runner's kExited. Returns when the runner has
// ended; those are then the last that is said. When the node hangs up, the runner is ended.
void relay(Sandbox& sandbox, int runner, int node);

}  // namespace cloister::guest
