// SPDX-License-Identifier: Apache-2.0
// What a cell gave, as the command line shows it.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace cloister::cli {

// The text of each result, one beneath the other.
std::string resultsText(const base::json::object& execution);
// A line for each of them, or part of one, that was left out or cut; "" if there are none.
std::string leftOutText(const base::json::object& execution);

// Writes the images among the results into the directory `dir`, as `cell-N-I.png` and so on, and
// returns one line for each.
Result<std::string> saveImages(const base::json::object& execution, const std::string& dir);

}  // namespace cloister::cli
