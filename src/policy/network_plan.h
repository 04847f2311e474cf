// SPDX-License-Identifier: Apache-2.0
// The network of a sandbox by policy: the plan that cloister-egress obeys, or a denial. A request
// may only narrow what its rule grants; each asked destination has to lie within an entry of the
// grant. docs/POLICY.md, "Network", explains the tiers.
//
//   restricted  the entries of the rule, and the destinations approved for the agent
//   internal    the operator's list (egress.internal), as far as the rule's entries cover the list
//   api         this service alone
//   full        any public name
//
// The last three need a rule whose match.network_tiers names the tier; full also an entry for any
// name. Pure; thread-safe.
#pragma once

#include <expected>

#include "policy/decide.h"

namespace cloister::policy {

// The name of this service inside of sandboxes with the tier `api`; plain HTTP on port 80.
inline constexpr std::string_view kApiName = "api.cloister.internal";

// The plan of generation 1 for a question whose tier is not `none`; `rule` decides the question.
std::expected<model::NetworkPlan, Denied> networkPlan(const Policy& policy, const Rule& rule,
                                                      const Question& question);

}  // namespace cloister::policy
