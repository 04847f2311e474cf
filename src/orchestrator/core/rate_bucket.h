// SPDX-License-Identifier: Apache-2.0
// RateBucket: so many of something a minute, all of them at once if need be. It begins full, and
// what is taken from it comes back evenly over a minute. In memory alone. One thread.
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
  // What is in it, of at most `per_minute`, which may change from one call to the next.
  [[nodiscard]] double left(uint64_t per_minute, base::Monotonic now) const {
    const auto most = static_cast<double>(per_minute);
    if (!left_) return most;
    const std::chrono::duration<double, std::ratio<60>> passed = now - filled_at_;
    return std::min(most, *left_ + most * passed.count());
  }
  // Seconds until there is one, at least 1; 0: there is one now.
  [[nodiscard]] int wait(uint64_t per_minute, base::Monotonic now) const {
    const double there = left(per_minute, now);
    if (there >= 1) return 0;
    return std::max(
        1, static_cast<int>(std::ceil((1 - there) * 60 / static_cast<double>(per_minute))));
  }
  // One, whether it is there or not.
  void take(uint64_t per_minute, base::Monotonic now) {
    left_ = left(per_minute, now) - 1;
    filled_at_ = now;
  }
  // What was taken was not used.
  void giveBack() {
    if (left_) *left_ += 1;
  }
  // Full again, whatever its bound is.
  [[nodiscard]] bool idle(base::Monotonic now) const {
    return !left_ || now - filled_at_ > std::chrono::minutes(1);
  }

 private:
  std::optional<double> left_;  // at `filled_at_`; without a value it is full
  base::Monotonic filled_at_{};
};

}  // namespace cloister::orchestrator
