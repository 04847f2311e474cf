// SPDX-License-Identifier: Apache-2.0
// The list of a workspace's names that an approval in a session binds, as shown to approvers and as
// kept with the escalation.
#pragma once

#include <cstddef>
#include <string>

#include "orchestrator/runs/workspace_state.h"

namespace cloister::orchestrator {

// Bounds of a list. Further names are counted, and the digest covers all names.
inline constexpr size_t kMostListed = 4096;
inline constexpr size_t kMostListedBytes = size_t{1} << 20;

// JSON, an object: WorkspaceList of spec/openapi.yaml. Paths and targets of links are written for
// eyes (model::markedText()). If not all names have room, names in `request_json` come first;
// listed names are sorted by path.
std::string listOf(const WorkspaceState& workspace, const std::string& request_json);

}  // namespace cloister::orchestrator
