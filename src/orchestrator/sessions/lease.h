// SPDX-License-Identifier: Apache-2.0
// Lease: how long a session lives. Its absolute end is `ttl` after its sandbox was there or it was
// renewed last; its idle end is `idle_ttl` after that, or after its last program ended, and there
// is none while a program runs. What comes at or after the earlier of them comes too late, so
// whoever was told of a renewal never meets the end that was due before. Pure: the caller tells the
// time. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace cloister::orchestrator {

class Lease {
 public:
  struct Terms {
    Millis ttl{0};
    Millis idle_ttl{0};
  };
  // What it was held to when it ended.
  enum class Limit : uint8_t { kTtl, kIdleTtl };

  Lease(base::Monotonic now, Terms terms) : terms_(terms), from_(now), idle_from_(now) {}

  [[nodiscard]] base::Monotonic deadline() const {
    const base::Monotonic end = from_ + terms_.ttl;
    return programs_ > 0 ? end : std::min(end, idle_from_ + terms_.idle_ttl);
  }
  [[nodiscard]] Limit limit() const {
    return deadline() == from_ + terms_.ttl ? Limit::kTtl : Limit::kIdleTtl;
  }
  [[nodiscard]] bool over(base::Monotonic now) const { return now >= deadline(); }
  [[nodiscard]] const Terms& terms() const { return terms_; }

  // Both ends count from `now` on. False, and nothing has changed, once it is over.
  bool renew(base::Monotonic now, Terms terms) {
    if (over(now)) return false;
    terms_ = terms;
    from_ = idle_from_ = now;
    return true;
  }

  // Both ends count from `now` on, however long it took until then.
  void begin(base::Monotonic now) { from_ = idle_from_ = now; }

  // As if it had not been renewed since it was `before`; programs came and went as they did.
  void revert(const Lease& before) {
    if (idle_from_ == from_) idle_from_ = before.idle_from_;
    terms_ = before.terms_;
    from_ = before.from_;
  }

  // A program begins; false, and nothing has changed, once it is over.
  bool enter(base::Monotonic now) {
    if (over(now)) return false;
    programs_++;
    return true;
  }
  void leave(base::Monotonic now) {
    if (programs_ > 0) programs_--;  // one that came when it was over was not counted
    idle_from_ = now;
  }

 private:
  Terms terms_;
  base::Monotonic from_;
  base::Monotonic idle_from_;
  uint32_t programs_ = 0;  // that run
};

}  // namespace cloister::orchestrator
