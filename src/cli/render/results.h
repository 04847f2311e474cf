// SPDX-License-Identifier: Apache-2.0
// A cell's results, as shown by the command line.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace cloister::cli {

// The results' texts, separated by line ends.
std::string resultsText(const base::json::object& execution);
// A line for each missing or cut result or part; "" for none.
std::string leftOutText(const base::json::object& execution);

// Writes the images among the results into the directory `dir`, as `cell-N-I.png` and so on, and
// returns a line for each.
Result<std::string> saveImages(const base::json::object& execution, const std::string& dir);

}  // namespace cloister::cli
