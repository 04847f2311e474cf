// SPDX-License-Identifier: Apache-2.0
// Other words for flags and verbs: earlier names of ours, and the words of Docker, kubectl, gh and
// Fly. Earlier names are accepted; the words of others are suggested, unless the same verb is
// meant.
#pragma once

#include <span>
#include <string_view>

#include "base/flags.h"

namespace cloister::cli {

std::span<const base::FlagWord> flagWords();

// The verbs that may stand for `verb`, the likeliest first, separated by spaces: for "ls" it is
// "list". "" for a verb without another word.
std::string_view verbsFor(std::string_view verb);

// The command that is meant by a command of another tool: "ps" is "session list". "" for none.
std::string_view commandFor(std::string_view word);

}  // namespace cloister::cli
