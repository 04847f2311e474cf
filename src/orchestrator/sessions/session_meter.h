// SPDX-License-Identifier: Apache-2.0
// The part of a session's processor time charged to the session itself: its sandbox's use, minus
// the use of its programs and kernels, which are charged separately. Processes left by a program
// belong to this part. No time is charged twice. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/clock.h"

namespace cloister::orchestrator {

class SessionMeter {
 public:
  // `lag`: how much later than its sandbox's a program's use may be reported.
  explicit SessionMeter(Millis lag) : lag_(lag) {}

  // A program or kernel is reported to have used so much more.
  void addProgram(uint64_t cpu_ms) { programs_ += cpu_ms; }

  // Called for a program or kernel with `cpu_ms`, counted by addProgram(). Returns the part still
  // to charge: the session may already be charged for a program reported late.
  uint64_t chargeProgram(uint64_t cpu_ms) {
    const uint64_t over = session_ - std::min(session_, rest(total_));
    const uint64_t charged_before = std::min(over, cpu_ms);
    session_ -= charged_before;
    return cpu_ms - charged_before;
  }

  // The sandbox has used `total_ms` so far. Returns the session's charge for now.
  uint64_t look(uint64_t total_ms, base::Monotonic now) {
    total_ = std::max(total_, total_ms);
    if (seen_.empty() || seen_.back().second < total_) seen_.emplace_back(now, total_);
    uint64_t due = 0;
    while (!seen_.empty() && seen_.front().first <= now - lag_) {
      due += charge(seen_.front().second);
      seen_.pop_front();
    }
    return due;
  }

  // The same at the session's end, when every program has been counted.
  uint64_t lookLast(uint64_t total_ms) {
    total_ = std::max(total_, total_ms);
    seen_.clear();
    return charge(total_);
  }

 private:
  [[nodiscard]] uint64_t rest(uint64_t total_ms) const {
    return total_ms - std::min(total_ms, programs_);
  }
  uint64_t charge(uint64_t total_ms) {
    const uint64_t due = rest(total_ms) - std::min(rest(total_ms), session_);
    session_ += due;
    return due;
  }

  Millis lag_;
  uint64_t total_ = 0;                                     // of the sandbox, as reported last
  uint64_t programs_ = 0;                                  // the part of programs and kernels
  uint64_t session_ = 0;                                   // charged to the session
  std::deque<std::pair<base::Monotonic, uint64_t>> seen_;  // not old enough to be charged
};

}  // namespace cloister::orchestrator
