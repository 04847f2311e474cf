// SPDX-License-Identifier: Apache-2.0
// Makes sandboxes within the sandbox at the runner's request (wire/guest.h). An attacker who has
// broken the runner can send requests too. The gain is only a sandbox within the own one: the
// number of such sandboxes is bounded, and in a machine the outer sandbox's limits apply.
#pragma once

#include <sys/types.h>

#include "guest/ground.h"

namespace cloister::guest {

// Serves the socket whose other end the first sandbox's runner has, until the runner closes the
// socket, or until `runner`, the runner's process, has ended, if a child of this process.
[[noreturn]] void serveNester(const Ground& ground, int socket, pid_t runner);

}  // namespace cloister::guest
