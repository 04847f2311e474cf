// SPDX-License-Identifier: Apache-2.0
// The whole of what an escalation asks for, as `cloister escalation show --full` prints it: nothing
// is cut, and what would not be seen as what it is is an escape. Pure; safe for a terminal.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// Of the answer of GET /v1/escalations/{id}/request.
std::string requestText(const base::json::object& shown);

}  // namespace cloister::cli
