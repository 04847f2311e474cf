// SPDX-License-Identifier: Apache-2.0
// The link to a node: connects, tells Nodes what the node offers, and begins anew when the
// connection breaks.
#pragma once

#include <string>

#include "orchestrator/core/nodes.h"
#include "orchestrator/core/task.h"
#include "runtime/remote/remote.h"

namespace cloister::orchestrator {

// Keeps `nodes` connected to the node at `socket_path` for as long as the executor runs, with a
// bounded back-off (5 ms to 2 s) between attempts. A node that falls silent is lost too, as
// `silence` says. `nodes` outlives it.
Task<void> keepConnected(Nodes& nodes, std::string socket_path, runtime::Silence silence = {});

}  // namespace cloister::orchestrator
