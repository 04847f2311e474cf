// SPDX-License-Identifier: Apache-2.0
// The link to the node: connects, hands the node to the run service, and begins anew when it
// breaks.
#pragma once

#include <string>

#include "orchestrator/run_service.h"

namespace cloister::orchestrator {

// Keeps `service` connected to the node at `socket_path` for as long as the executor runs, with a
// bounded back-off (50 ms to 2 s) between attempts. `service` outlives it.
Task<void> keepConnected(RunService& service, std::string socket_path);

}  // namespace cloister::orchestrator
