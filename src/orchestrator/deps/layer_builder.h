// SPDX-License-Identifier: Apache-2.0
// Makes a dependency layer: a session of the service's own, whose network is the package gateway
// alone, installs the requirements; then the node keeps the installed files as a layer. One
// executor.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "model/dependency.h"
#include "orchestrator/core/task.h"
#include "orchestrator/deps/layer_service.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/sessions/sessions.h"

namespace cloister::orchestrator {

struct BuildBounds {
  Millis time{600'000};
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint64_t disk_bytes = uint64_t{1} << 30;
};

// `sessions` outlives the task. `inputs.tenant` may be "", so the tenant of the session is given.
Task<Result<model::DependencyLayer>> buildLayer(Sessions& sessions,
                                                std::shared_ptr<Programs> programs,
                                                std::string tenant, model::LayerInputs inputs,
                                                BuildBounds bounds);

// buildLayer() over these sessions, which outlive the function.
inline MakeLayer layerMaker(Sessions& sessions, std::shared_ptr<Programs> programs,
                            BuildBounds bounds) {
  return [&sessions, programs = std::move(programs), bounds](std::string tenant,
                                                             model::LayerInputs inputs) {
    return buildLayer(sessions, programs, std::move(tenant), std::move(inputs), bounds);
  };
}

}  // namespace cloister::orchestrator
