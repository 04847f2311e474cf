// SPDX-License-Identifier: Apache-2.0
// The link to a node: connects, reports the node's offer to Nodes, and reconnects.
#pragma once

#include <string>

#include "orchestrator/core/nodes.h"
#include "orchestrator/core/task.h"
#include "runtime/remote/remote.h"

namespace cloister::orchestrator {

// Keeps `nodes` connected to the node at `socket_path` for as long as the executor runs, with a
// bounded back-off (5 ms to 2 s) between attempts. A silent node counts as lost, according to
// `silence`. `nodes` outlives the task.
Task<void> keepConnected(Nodes& nodes, std::string socket_path, runtime::Silence silence = {});

}  // namespace cloister::orchestrator
