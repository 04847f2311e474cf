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

// The candidate that means the same as `word` in other systems (`lang`, `envVars`), or else the
// nearest. Candidates and word may be fields or flags; "" if none is likely.
std::string meantName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace cloister::base
