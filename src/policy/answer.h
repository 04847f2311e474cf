// SPDX-License-Identifier: Apache-2.0
// The question to an external policy engine, and the engine's answer: two JSON documents of version
// 1 (docs/POLICY.md, "Another engine"). The question has the facts that the conditions of a rule
// examine and no more: no code, no value of a variable. The answer is hostile until checked. The
// answer becomes a policy of one rule for this question alone, so the ceilings, the offered
// runtimes and the approvals apply as with our own rules. Pure; thread-safe.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "policy/decide.h"

namespace cloister::policy {

// `most`: the configuration's limits, for engines that use the limits.
base::json::object questionJson(const Question& question, const model::Limits& most);

// Converts an answer to a policy; `engine` names the engine in the policy's id, as "opa@REVISION".
// kInvalid names the member: unknown, of a wrong type, missing, above `most`, a tier below the
// requested tier, or a network not requested.
Result<Policy> readAnswer(const base::json::object& answer, const Question& question,
                          const model::Limits& most, std::string_view engine);

}  // namespace cloister::policy
