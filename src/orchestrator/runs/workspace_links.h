// SPDX-License-Identifier: Apache-2.0
// Links of a workspace to places without approval: the content of such a place can change after the
// request, and would still run.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/runs/workspace_state.h"

namespace cloister::orchestrator {

struct LinkOut {
  std::string link;   // its path, beneath the workspace
  std::string where;  // the followed path, and its rest
};

// The first link, by path, out of the workspace to a changeable place, or to a place that cannot be
// resolved without the image: the sandbox's own directories, directories above these, and `..`
// outside of the workspace. Links of the workspace are followed, links of the image are not. Pure.
// The time is bounded: at the bound, the link being followed is returned.
std::optional<LinkOut> linkOut(const WorkspaceState& workspace);

}  // namespace cloister::orchestrator
