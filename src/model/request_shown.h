// SPDX-License-Identifier: Apache-2.0
// The whole of what is asked for, as those who decide are shown it: the request as it was stored,
// its files by size and digest, and the characters in it that would not be seen as what they are.
#pragma once

#include "base/json.h"
#include "model/escalation.h"

namespace cloister::model {

// Maximum number of listed characters; the others are counted.
inline constexpr size_t kMostUnusual = 1000;

// `workspace`: the stored content list of the session's workspace; null for none.
base::json::object shownRequest(const Escalation& escalation, const base::json::object& request,
                                base::json::value workspace);

}  // namespace cloister::model
