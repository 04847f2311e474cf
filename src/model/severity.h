// SPDX-License-Identifier: Apache-2.0
// How severe an advisory is: the words of databases, and the base score of CVSS 3.0 and 3.1
// (https://www.first.org/cvss/v3.1/specification-document) in the qualitative rating. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cloister::model {

// In order.
enum class Severity : uint8_t { kLow, kMedium, kHigh, kCritical };

std::string_view severityName(Severity severity);  // "low"
// "low", "medium" or "moderate", "high", "critical", "unimportant" (low), in any case.
std::optional<Severity> severityFromWord(std::string_view word);
// "CVSS:3.1/AV:N/AC:L/…"; nullopt: another version, or malformed.
std::optional<double> cvssScore(std::string_view vector);
std::optional<Severity> severityFromCvss(std::string_view vector);

}  // namespace cloister::model
