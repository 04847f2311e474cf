// SPDX-License-Identifier: Apache-2.0
// The way between a runner's stream and the node's.
#pragma once

#include "guest/sandbox.h"

namespace cloister::guest {

// Carries both ways between `runner`, the other end of the stream that the sandbox's runner has,
// and `node`; its counts too, before each of the runner's kExited. Returns when the runner has
// ended; those are then the last that is said. When the node hangs up, the runner is ended.
void relay(Sandbox& sandbox, int runner, int node);

}  // namespace cloister::guest
