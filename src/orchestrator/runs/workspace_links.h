// SPDX-License-Identifier: Apache-2.0
// Links of a workspace that lead to a place which no approval covers: what lies there can change
// after the request, and would run all the same.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/runs/workspace_state.h"

namespace cloister::orchestrator {

struct LinkOut {
  std::string link;   // its path, beneath the workspace
  std::string where;  // a path as it was followed so far, and the rest of it
};

// The first, by its path, that leads out of the workspace to where something may change, or that
// cannot be followed without the image: the sandbox's own directories and those above them, and
// `..` outside of the workspace. Links of the workspace are followed, those of the image are not.
// Pure. The time is bounded: if there is too much to follow, it is the link at which that shows.
std::optional<LinkOut> linkOut(const WorkspaceState& workspace);

}  // namespace cloister::orchestrator
