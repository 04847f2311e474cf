// SPDX-License-Identifier: Apache-2.0
// The text of `cloister pool` for /v1/pool.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// A table: the kinds of ready sandboxes, then the sources and durations of claims, and further
// remarks. Ends with a newline.
std::string poolText(const base::json::object& pool);

// The time, in words, for `percent` of a histogram's durations; "-" without durations.
std::string withinOf(const base::json::object& durations, int64_t percent);

}  // namespace cloister::cli
