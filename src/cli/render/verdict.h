// SPDX-License-Identifier: Apache-2.0
// A finished execution on the command line: exit status and text. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::cli {

// The exit statuses of commands.
inline constexpr int kStatusNo = 1;       // the answer is no
inline constexpr int kStatusUsage = 2;    // the command line is wrong
inline constexpr int kStatusRefused = 3;  // not allowed, in conflict, or over a bound
inline constexpr int kStatusMissing = 4;  // not found
// The exit statuses of `cloister run` beside the program's own.
inline constexpr int kStatusTimeout = 124;
inline constexpr int kStatusService = 125;  // refused, or failed on our side
inline constexpr int kStatusKilled = 137;   // by the memory limit, or another limit's kill
inline constexpr int kStatusSignal = 128;   // plus the signal's number
inline constexpr int kStatusInterrupted = 130;

// The exit status for a command's error; kStatusService for failures and an unreachable server.
int errorStatus(const Error& error);

// The exit status for an execution in a terminal state.
int exitStatus(const base::json::object& execution);

// Lines for stderr, "" for none: the reason of the run's end, cut parts, and possible actions.
std::string explain(const base::json::object& execution);

// For an execution that waits for an approval: the escalation, and the way to approve; `waits`:
// this command waits. `show`: the command that shows the execution.
std::string blockedText(const base::json::object& execution, bool waits,
                        std::string_view show = "execution show");

}  // namespace cloister::cli
