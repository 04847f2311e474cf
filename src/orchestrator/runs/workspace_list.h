// SPDX-License-Identifier: Apache-2.0
// What an approval in a session is bound to in its workspace, name by name, as those who decide are
// shown it and as it is kept with the escalation.
#pragma once

#include <cstddef>
#include <string>

#include "orchestrator/runs/workspace_state.h"

namespace cloister::orchestrator {

// Of one list. The others are counted; the digest covers them as well.
inline constexpr size_t kMostListed = 4096;
inline constexpr size_t kMostListedBytes = size_t{1} << 20;

// JSON, an object: WorkspaceList of spec/openapi.yaml. Paths and targets of links are written for
// eyes (model::markedText()). Names that stand in `request_json` come before others if not all have
// room; those that are listed are sorted by path.
std::string listOf(const WorkspaceState& workspace, const std::string& request_json);

}  // namespace cloister::orchestrator
