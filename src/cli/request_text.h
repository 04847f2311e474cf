// SPDX-License-Identifier: Apache-2.0
// The whole request of an escalation, as printed by `cloister escalation show --full`: nothing is
// cut, and misleading characters are escaped. Pure; safe for a terminal.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// For the answer of GET /v1/escalations/{id}/request.
std::string requestText(const base::json::object& shown);

}  // namespace cloister::cli
