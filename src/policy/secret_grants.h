// SPDX-License-Identifier: Apache-2.0
// The secrets of a request by policy: which a rule grants, and what a brokered one does to the plan
// of the sandbox's network. Silence refuses. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/decide.h"

namespace cloister::policy {

// Why the rule grants not all secrets of the request; nullopt: it does.
std::optional<Denied> overSecrets(const Rule& rule, const model::RunRequest& request);

// Puts the brokered secrets of the request into the plan. Their destinations are inspected where
// they speak TLS: a rule for exactly the host and the port comes before the rule that allows them,
// so no other host is inspected for it. A destination outside the plan denies.
std::optional<Denied> addBrokered(const Rule& rule, const Question& question,
                                  model::NetworkPlan& plan);

// "KEY as env" or "KEY as broker to api.example.com:443"
std::string secretText(const model::SecretUse& use);

// Weaknesses of the request's secrets under this plan, for records: a sentence for each.
std::vector<std::string> weakenedBySecrets(const model::NetworkPlan& plan);

}  // namespace cloister::policy
