// SPDX-License-Identifier: Apache-2.0
// The whole of a request, as shown to the deciders: the stored request, its files by size and
// digest, and its characters that would be invisible or misleading.
#pragma once

#include "base/json.h"
#include "model/escalation.h"

namespace cloister::model {

// Maximum number of listed characters; the others are counted.
inline constexpr size_t kMostUnusual = 1000;

// `workspace`: the stored content list of the session's workspace; null for none.
base::json::object shownRequest(const Escalation& escalation, const base::json::object& request,
                                base::json::value workspace);

// Replaces each value of the request's environment by null. False: the request sets no variable.
bool withholdEnv(base::json::object& request);

}  // namespace cloister::model
