// SPDX-License-Identifier: Apache-2.0
// Makes sandboxes within the sandbox when its runner asks for them (wire/guest.h). Whoever has
// broken the runner asks here too: all he gets is a sandbox within his own, of which there is a
// number at most, and in a machine within his own's limits.
#pragma once

#include <sys/types.h>

#include "guest/ground.h"

namespace cloister::guest {

// Serves the socket whose other end the first sandbox's runner has, until the runner closes the
// socket, or until `runner`, the runner's process, has ended, if a child of this process.
[[noreturn]] void serveNester(const Ground& ground, int socket, pid_t runner);

}  // namespace cloister::guest
