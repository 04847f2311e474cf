// SPDX-License-Identifier: Apache-2.0
// The way between the runner's socket and the node's port.
#pragma once

#include "guest/sandbox.h"

namespace cloister::guest {

// Carries both ways, and the counts before each of the runner's kExited, until the runner has
// ended; those are then the last that is said.
void relay(const Sandbox& sandbox, int port);

}  // namespace cloister::guest
