// SPDX-License-Identifier: Apache-2.0
// Heartbeat: decides when to ask the other end of a link for a heartbeat, and when to give the link
// up. Time counts by ticks. A late tick means that this process did not run, through no fault of
// the other end, so a late tick counts as one. No I/O and no clock of its own. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace cloister::net {

class Heartbeat {
 public:
  // Gives the other end up after `patience` without a sign of life.
  explicit Heartbeat(Millis patience)
      : patience_(patience), tick_(std::clamp(patience / 10, kShortestTick, kLongestTick)) {}

  // How often to call tick().
  [[nodiscard]] Millis interval() const { return tick_; }

  // Records that any message came.
  void heard() { silent_ = Millis(0); }
  // The answer to a question; false if there was none.
  bool answered() { return asked_ > 0 && asked_-- > 0; }

  struct Beat {
    bool ask = false;
    bool gone = false;
    Millis slept{0};  // time asleep since the last tick
  };
  // After every interval(), or more often.
  Beat tick(base::Monotonic now) {
    Beat beat;
    const auto since = last_ ? std::chrono::duration_cast<Millis>(now - *last_) : Millis(0);
    last_ = now;
    if (since > kLate * tick_) beat.slept = since - tick_;
    const Millis before = silent_;
    silent_ += since - beat.slept;
    // Several times before its patience is over.
    const Millis every = patience_ / kQuestions;
    beat.ask = before / every != silent_ / every;
    beat.gone = silent_ >= patience_ && asked_ >= kUnanswered;
    if (beat.ask) ++asked_;
    return beat;
  }

 private:
  static constexpr Millis kShortestTick{20};
  static constexpr Millis kLongestTick{1'000};
  static constexpr int kLate = 3;             // ticks
  static constexpr int kQuestions = 6;        // in the time of its patience
  static constexpr uint32_t kUnanswered = 3;  // minimum number of unanswered pings

  Millis patience_;
  Millis tick_;
  Millis silent_{0};
  uint32_t asked_ = 0;
  std::optional<base::Monotonic> last_;
};

}  // namespace cloister::net
