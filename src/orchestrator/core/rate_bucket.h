// SPDX-License-Identifier: Apache-2.0
// RateBucket: a bounded number of events per minute, possibly all at once. A bucket begins full,
// and refills evenly over a minute. In memory alone. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace cloister::orchestrator {

class RateBucket {
 public:
  // Remaining events, at most `per_minute`, which may change between calls.
  [[nodiscard]] double left(uint64_t per_minute, base::Monotonic now) const {
    const auto most = static_cast<double>(per_minute);
    if (!left_) return most;
    const std::chrono::duration<double, std::ratio<60>> passed = now - filled_at_;
    return std::min(most, *left_ + most * passed.count());
  }
  // Seconds until the next event, at least 1; 0: an event is possible now.
  [[nodiscard]] int wait(uint64_t per_minute, base::Monotonic now) const {
    const double there = left(per_minute, now);
    if (there >= 1) return 0;
    return std::max(
        1, static_cast<int>(std::ceil((1 - there) * 60 / static_cast<double>(per_minute))));
  }
  // Takes an event even from an empty bucket.
  void take(uint64_t per_minute, base::Monotonic now) {
    left_ = left(per_minute, now) - 1;
    filled_at_ = now;
  }
  // Returns an unused event.
  void giveBack() {
    if (left_) *left_ += 1;
  }
  // Full again, whatever its bound is.
  [[nodiscard]] bool idle(base::Monotonic now) const {
    return !left_ || now - filled_at_ > std::chrono::minutes(1);
  }

 private:
  std::optional<double> left_;  // at `filled_at_`; full without a value
  base::Monotonic filled_at_{};
};

}  // namespace cloister::orchestrator
