// SPDX-License-Identifier: Apache-2.0
// What `cloister pool` prints of /v1/pool for people.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// One table: first the kinds of ready sandboxes, then how claims were served, how long it took, and
// what else there is to say. Ends with a newline.
std::string poolText(const base::json::object& pool);

// Within what time, in words, `percent` of a histogram's durations were; "-" when there are none.
std::string withinOf(const base::json::object& durations, int64_t percent);

}  // namespace cloister::cli
