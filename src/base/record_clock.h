// SPDX-License-Identifier: Apache-2.0
// The times of one record: the first from the wall clock, and later times from the monotonic clock.
// So the times are in order even if the wall clock is changed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace cloister::base {

class RecordClock {
 public:
  // For a record that begins now, or has times up to `latest` from before a restart.
  explicit RecordClock(int64_t latest = 0)
      : wall_(std::max(wallMicros(), latest)), since_(monotonicNow()) {}

  // Microseconds since the Unix epoch.
  [[nodiscard]] int64_t now() const { return at(monotonicNow()); }
  [[nodiscard]] int64_t at(Monotonic when) const {
    return wall_ + std::chrono::duration_cast<Micros>(when - since_).count();
  }

 private:
  int64_t wall_;
  Monotonic since_;
};

// For tests: from now on wallMicros() is off by so much.
void setWallOffset(Micros offset);

}  // namespace cloister::base
