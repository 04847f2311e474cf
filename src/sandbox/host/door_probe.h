// SPDX-License-Identifier: Apache-2.0
// Whether this machine can open doors to the network for its sandboxes (ADR 0100), for
// `cloister doctor`.
#pragma once

#include <string_view>

#include "confine/become_door.h"
#include "model/plan.h"

namespace cloister::runtime {

// Opens a door in a network namespace that ends with the attempt. `rootless`: in a user namespace,
// as an ordinary user's sandboxes. Blocks for some milliseconds. Call where Spawner::start() may be
// called: a child process does the work.
model::Finding probeDoor(bool rootless);

// The finding for an attempt's answer.
model::Finding doorFinding(const DoorAnswer& answer);

// Likewise: whether doors of gVisor's sandboxes can have their pair of interfaces (ADR 0101), and
// doors of virtual machines their tap interface.
model::Finding probeVeth(bool rootless);
model::Finding probeTap(bool rootless);

// The finding of the name "network NAME" for an attempt that ended with `error`, or without one
// (""). `runtime`: which runtime needs it.
model::Finding linkFinding(std::string_view name, std::string_view runtime, std::string_view error);

}  // namespace cloister::runtime
