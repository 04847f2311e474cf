// SPDX-License-Identifier: Apache-2.0
// CpuRate: the current use of a processor, computed from the total use so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace cloister::node {

class CpuRate {
 public:
  // The measuring period: the last second, or since the last call but one if longer ago.
  static constexpr std::chrono::milliseconds kSpan{1000};
  // Calls in quicker succession are not stored, to keep few entries.
  static constexpr std::chrono::milliseconds kApart{50};

  // Records `cpu_ms` used until `now`. Returns thousandths of a processor; 0 at the first call.
  uint32_t tell(int64_t cpu_ms, base::Monotonic now);

 private:
  struct Look {
    base::Monotonic at;
    int64_t cpu_ms;
  };
  std::deque<Look> looks_;  // oldest first; the oldest is the reference
};

}  // namespace cloister::node
