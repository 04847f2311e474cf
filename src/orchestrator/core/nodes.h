// SPDX-License-Identifier: Apache-2.0
// NodeState: the node as the services see it.
#pragma once

#include "model/plan.h"
#include "runtime/runtime.h"

namespace cloister::orchestrator {

// `runtime` is null while no node is connected. The runtimes that the last node offered stay.
struct NodeState {
  runtime::Runtime* runtime = nullptr;
  model::NodeOffer offer;
};

}  // namespace cloister::orchestrator
