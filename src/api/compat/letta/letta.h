// SPDX-License-Identifier: Apache-2.0
// The tools of Letta, at /letta: tools as source, their runs, and the configurations of their
// sandboxes. Errors are {"detail"}. docs/howto/letta.md is for users; docs/adr/0114 gives the
// reasons. All code runs on the io thread.
//
// tool_routes.cc: /v1/tools and /v1/agents/{agent}/tools; config_routes.cc: /v1/sandbox-config;
// tool_run.h: a tool as an execution; tool.h: the stored form.
#pragma once

#include <memory>
#include <vector>

#include "api/compat/compat.h"
#include "api/compat/letta/run_tokens.h"

namespace cloister::api::compat::letta {

Facade facade(RestParts& parts);

// By file.
std::vector<Route> lettaToolRoutes(RestParts& parts, std::shared_ptr<RunTokens> tokens);
std::vector<Route> lettaConfigRoutes(RestParts& parts, std::shared_ptr<RunTokens> tokens);

}  // namespace cloister::api::compat::letta
