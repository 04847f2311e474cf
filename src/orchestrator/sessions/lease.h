// SPDX-License-Identifier: Apache-2.0
// Lease: a session's lifetime. The absolute end is `ttl` after the sandbox's start or the last
// renewal. The idle end is `idle_ttl` after the same time, or after the end of the last program;
// while a program runs there is no idle end. Requests at or after the earlier end are too late, so
// an acknowledged renewal never meets the earlier deadline. Pure: the caller passes the time. One
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace cloister::orchestrator {

class Lease {
 public:
  struct Terms {
    Millis ttl{0};
    Millis idle_ttl{0};
  };
  // The limit at the session's end.
  enum class Limit : uint8_t { kTtl, kIdleTtl };

  Lease(base::Monotonic now, Terms terms) : terms_(terms), from_(now), idle_from_(now) {}

  [[nodiscard]] base::Monotonic deadline() const {
    const base::Monotonic end = from_ + terms_.ttl;
    return programs_ > 0 ? end : std::min(end, idle_from_ + terms_.idle_ttl);
  }
  [[nodiscard]] Limit limit() const {
    return deadline() == from_ + terms_.ttl ? Limit::kTtl : Limit::kIdleTtl;
  }
  // Since when no program runs; nullopt while one runs.
  [[nodiscard]] std::optional<base::Monotonic> idleSince() const {
    if (programs_ > 0) return std::nullopt;
    return idle_from_;
  }
  [[nodiscard]] bool over(base::Monotonic now) const { return now >= deadline(); }
  [[nodiscard]] const Terms& terms() const { return terms_; }

  // Both ends count from `now` on. False, without a change, after the end.
  bool renew(base::Monotonic now, Terms terms) {
    if (over(now)) return false;
    terms_ = terms;
    from_ = idle_from_ = now;
    return true;
  }

  // Both ends count from `now` on, after the start of the sandbox.
  void begin(base::Monotonic now) { from_ = idle_from_ = now; }

  // Undoes renewals since `before`; keeps begins and ends of programs.
  void revert(const Lease& before) {
    if (idle_from_ == from_) idle_from_ = before.idle_from_;
    terms_ = before.terms_;
    from_ = before.from_;
  }

  // Begins a program; false, without a change, after the end.
  bool enter(base::Monotonic now) {
    if (over(now)) return false;
    programs_++;
    return true;
  }
  void leave(base::Monotonic now) {
    if (programs_ > 0) programs_--;  // a program refused after the end was not counted
    idle_from_ = now;
  }

 private:
  Terms terms_;
  base::Monotonic from_;
  base::Monotonic idle_from_;
  uint32_t programs_ = 0;  // running programs
};

}  // namespace cloister::orchestrator
