// SPDX-License-Identifier: Apache-2.0
// Texts of `cloister escalation` about escalations, from the API's answers. Pure; safe for a
// terminal.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace cloister::cli {

std::string requestedText(const base::json::object& escalation);
// `now`: seconds since 1970.
std::string shownText(const base::json::object& escalation, int64_t now);
// `execution`: the execution that waited for the approval, as it is now; empty if it is not known.
std::string approvedText(const base::json::object& escalation,
                         const base::json::object& execution = {});
// Whether an execution that waited for its approval has ended without a start.
bool neverStarted(const base::json::object& execution);
std::string deniedText(const base::json::object& escalation);
std::string policyText(const base::json::object& policy);
// About the continued execution.
bool isUnderWay(const base::json::object& execution);
std::string endedText(const base::json::object& execution);

// "2 hours", "15 minutes", "1 second": the largest fitting unit.
std::string timeText(int64_t seconds);
// "1h 45min", "3min": a begun minute counts.
std::string leftText(int64_t seconds);
// Seconds between two times of the API; 0 for an invalid time.
int64_t secondsBetween(const std::string& from, const std::string& to);
// For a cell of a table.
std::string shortText(const std::string& text);

}  // namespace cloister::cli
