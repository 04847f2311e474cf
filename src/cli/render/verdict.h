// SPDX-License-Identifier: Apache-2.0
// What a finished execution means for the command line: the exit status and the words. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace cloister::cli {

// The exit statuses of `cloister run` that are not the program's own.
inline constexpr int kStatusTimeout = 124;
inline constexpr int kStatusService = 125;  // refused, or failed on our side
inline constexpr int kStatusKilled = 137;   // by the memory limit, or another limit's kill
inline constexpr int kStatusSignal = 128;   // plus the signal's number
inline constexpr int kStatusInterrupted = 130;

// The exit status for an execution in a terminal state.
int exitStatus(const base::json::object& execution);

// Lines for stderr, "" when there is nothing to say: why the run ended, what was cut off, and what
// can be done.
std::string explain(const base::json::object& execution);

// Of one that waits for an approval: which, and how it is given; `waits`: this command stays.
// `show`: the command that shows it.
std::string blockedText(const base::json::object& execution, bool waits,
                        std::string_view show = "execution show");

}  // namespace cloister::cli
