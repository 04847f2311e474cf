// SPDX-License-Identifier: Apache-2.0
// Whether this machine can open doors to the network for its sandboxes (ADR 0100), for
// `cloister doctor`.
#pragma once

#include "confine/become_door.h"
#include "model/plan.h"

namespace cloister::runtime {

// Opens a door in a network namespace that ends with the attempt. `rootless`: in a user namespace,
// as an ordinary user's sandboxes. Blocks for some milliseconds. Call where Spawner::start() may be
// called: a child process does the work.
model::Finding probeDoor(bool rootless);

// The finding for an attempt's answer.
model::Finding doorFinding(const DoorAnswer& answer);

}  // namespace cloister::runtime
