// SPDX-License-Identifier: Apache-2.0
// The link to the node: connects, hands the node to the run service, and begins anew when it
// breaks.
#pragma once

#include <string>

#include "orchestrator/runs/run_service.h"
#include "runtime/remote/remote.h"

namespace cloister::orchestrator {

// Keeps `service` connected to the node at `socket_path` for as long as the executor runs, with a
// bounded back-off (50 ms to 2 s) between attempts. A node that falls silent is lost too, as
// `silence` says. `service` outlives it.
Task<void> keepConnected(RunService& service, std::string socket_path,
                         runtime::Silence silence = {});

}  // namespace cloister::orchestrator
