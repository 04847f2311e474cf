// SPDX-License-Identifier: Apache-2.0
// Carries bytes between a runner's stream and the node's.
#pragma once

#include "base/fd.h"
#include "guest/sandbox.h"

namespace cloister::guest {

// Forwards the runner's first frame, and then waits until the node wakes this machine, one of many
// resumed from the same state (kWake of wire/guest.h). Any other frame of the node ends the
// machine. On vsock the connection does not survive the saving of the machine, so the function
// connects again until the wake-up comes; on a virtio port the descriptor stays, and the end of its
// stream ends the machine. On return, kWake came on `node`.
void sleepUntilWoken(int runner, Fd& node);

// Forwards both ways between `runner`, the other end of the sandbox's runner's stream, and `node`.
// Sends counts before each kExited of the runner. Returns when the runner has ended, after final
// counts. When the node closes the connection, the runner is ended.
void relay(Sandbox& sandbox, int runner, int node);

}  // namespace cloister::guest
