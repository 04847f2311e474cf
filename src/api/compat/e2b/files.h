// SPDX-License-Identifier: Apache-2.0
// E2B's /files and /health of a sandbox: contents of files, with the sandbox's token, or with a
// signature in the query.
#pragma once

#include <vector>

#include "api/compat/e2b/sandbox.h"

namespace cloister::api::compat::e2b {

std::vector<Route> contentRoutes(RestParts& parts);

}  // namespace cloister::api::compat::e2b
