// SPDX-License-Identifier: Apache-2.0
// Two clocks, never mixed: monotonic for durations and deadlines, wall only for the record.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cloister::base {

using Millis = std::chrono::milliseconds;
using Micros = std::chrono::microseconds;
using Monotonic = std::chrono::steady_clock::time_point;

inline Monotonic monotonicNow() {
  return std::chrono::steady_clock::now();
}

// Microseconds since the Unix epoch, for records.
int64_t wallMicros();

// RFC 3339 in UTC with milliseconds: 2026-01-02T03:04:05.678Z. 0 gives "".
std::string formatTime(int64_t wall_micros);

// Wall-clock microseconds of an RFC 3339 time with any offset, or of a day (00:00 UTC); nullopt for
// any other text.
std::optional<int64_t> parseTime(std::string_view text);

}  // namespace cloister::base

namespace cloister {
using base::Micros;
using base::Millis;
}  // namespace cloister
