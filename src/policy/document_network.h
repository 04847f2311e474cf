// SPDX-License-Identifier: Apache-2.0
// Reading the destinations that a rule of a policy document grants.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "policy/document.h"

namespace cloister::policy {

// Reads `network` and `secrets` of an allowing or approving rule. Errors name the member.
// Needs the rule's conditions: an entry for any name is for a rule whose match.network_tiers names
// the tier full.
Result<> readRuleNetwork(base::ObjectReader& reader, Rule& rule);

// Reads such a list from the member `name`. Errors name the member.
Result<> readDestinations(base::ObjectReader& reader, std::string_view name, Rule& rule);

}  // namespace cloister::policy
