// SPDX-License-Identifier: Apache-2.0
// CpuRate: how much of a processor something uses at present, from how much it has used so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace cloister::node {

class CpuRate {
 public:
  // Over the last second, or since the last but one call if that is longer ago.
  static constexpr std::chrono::milliseconds kSpan{1000};
  // Calls that come closer together are not remembered, so that there are few.
  static constexpr std::chrono::milliseconds kApart{50};

  // It has used `cpu_ms` until `now`. In thousandths of a processor; 0 at the first call.
  uint32_t tell(int64_t cpu_ms, base::Monotonic now);

 private:
  struct Look {
    base::Monotonic at;
    int64_t cpu_ms;
  };
  std::deque<Look> looks_;  // the oldest first, that from which it is counted
};

}  // namespace cloister::node
