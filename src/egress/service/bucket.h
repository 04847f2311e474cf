// SPDX-License-Identifier: Apache-2.0
// A token bucket: a rate with a burst. One thread.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace cloister::egress {

class Bucket {
 public:
  // Full at first. `burst` is at least 1.
  Bucket(double per_second, double burst)
      : per_second_(per_second), burst_(std::max(burst, 1.0)), tokens_(burst_) {}

  // Takes a token; false without one.
  bool take(base::Monotonic now = base::monotonicNow()) {
    if (now > filled_) {
      if (filled_ != base::Monotonic{}) {
        const std::chrono::duration<double> passed = now - filled_;
        tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
      }
      filled_ = now;
    }
    if (tokens_ < 1.0) return false;
    tokens_ -= 1.0;
    return true;
  }

  [[nodiscard]] double perSecond() const { return per_second_; }
  // Whether a new bucket would give no more.
  [[nodiscard]] bool full(base::Monotonic now = base::monotonicNow()) const {
    const std::chrono::duration<double> passed = now - filled_;
    return tokens_ + passed.count() * per_second_ >= burst_;
  }

 private:
  double per_second_;
  double burst_;
  double tokens_;
  base::Monotonic filled_{};
};

}  // namespace cloister::egress
