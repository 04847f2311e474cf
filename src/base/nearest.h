// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the likeliest intended name for a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cloister::base {

// The candidate with the smallest edit distance (Levenshtein) to `word`, the first of equals; "" if
// none is within a third of the word's length, plus one.
std::string nearestName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace cloister::base
