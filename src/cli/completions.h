// SPDX-License-Identifier: Apache-2.0
// Completion: possible next words of a command line. The scripts of the shells (`cloister
// completion`) ask for them by `cloister __complete WORDS…`, so that all shells offer the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/server.h"

namespace cloister::cli {

inline constexpr std::string_view kCompleteWord = "__complete";

// How the last of several words may go on.
struct Completion {
  std::vector<std::string> words;
  // The objects of the server that fit as well: the key of a Listing in completions.cc, or "".
  std::string objects = {};
  Globals globals = {};  // for the server that knows them
};

// `words`: those behind `cloister`, the last as far as it is typed. Pure.
Completion completionOf(std::vector<std::string> words);

// Prints the words that fit, a line each. Asks the server that runs already, briefly, for ids and
// names; prints none of them if it does not answer. Returns 0.
int printCompletions(const std::vector<std::string>& words);

}  // namespace cloister::cli
