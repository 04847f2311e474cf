// SPDX-License-Identifier: Apache-2.0
// E2B's process.Process: programs of a sandbox, their output, input and signals.
#pragma once

#include <vector>

#include "api/compat/e2b/processes.h"
#include "api/compat/e2b/sandbox.h"

namespace cloister::api::compat::e2b {

// `processes` outlives the routes.
std::vector<Route> processRoutes(RestParts& parts, Processes& processes);

}  // namespace cloister::api::compat::e2b
