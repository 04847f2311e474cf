// SPDX-License-Identifier: Apache-2.0
// A decision of policy, from the API's answer. Pure; safe for a terminal.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// "allow: because …", with the rule, the policy, the remedy, the tier, the network and the approval
// on lines of their own.
std::string decisionText(const base::json::object& answer);

}  // namespace cloister::cli
