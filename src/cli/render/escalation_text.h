// SPDX-License-Identifier: Apache-2.0
// What `cloister escalation` says of escalations, from the API's answers. Pure; safe for a
// terminal.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace cloister::cli {

std::string requestedText(const base::json::object& escalation);
// `now`: seconds since 1970.
std::string shownText(const base::json::object& escalation, int64_t now);
std::string approvedText(const base::json::object& escalation);
std::string deniedText(const base::json::object& escalation);
std::string policyText(const base::json::object& policy);
// Of the execution that went on.
bool isUnderWay(const base::json::object& execution);
std::string endedText(const base::json::object& execution);

// "2 hours", "15 minutes", "1 second": the largest unit that fits.
std::string timeText(int64_t seconds);
// "1h 45min", "3min": minutes that have begun count.
std::string leftText(int64_t seconds);
// Seconds from one time of the API to another; 0 where one is none.
int64_t secondsBetween(const std::string& from, const std::string& to);
// For a cell of a table.
std::string shortText(const std::string& text);

}  // namespace cloister::cli
