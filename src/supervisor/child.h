// SPDX-License-Identifier: Apache-2.0
// A supervised process: started, checked for readiness, and restarted after its death. The delay
// doubles from 100 ms to a bound of 10 s or less, and falls back after 30 s of life.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "supervisor/process.h"

namespace cloister::supervisor {

inline constexpr Millis kLongestDelay{10'000};

class Child {
 public:
  // `program` without the flags for descriptors, which each start adds. `longest`: the bound of the
  // delay.
  Child(std::string name, Program program, Millis longest = kLongestDelay)
      : name_(std::move(name)), program_(std::move(program)), longest_(longest) {}

  Result<> startNow(int lifeline);
  // Call after reaping the process; sets the time of the restart (never, unless startNow is
  // called).
  void ended(int wait_status);
  // Reads the readiness pipe; true if the process has just become ready.
  bool checkReady();
  void signal(int signal) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }  // 0 while not running
  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] bool everReady() const { return ever_ready_; }
  [[nodiscard]] int readyFd() const { return pid_ > 0 && !ready_ ? ready_pipe_.get() : -1; }
  [[nodiscard]] base::Monotonic nextStart() const { return next_start_; }
  [[nodiscard]] const std::string& lastEnd() const { return last_end_; }
  [[nodiscard]] uint32_t restarts() const { return restarts_; }

 private:
  std::string name_;
  Program program_;
  Millis longest_;
  pid_t pid_ = 0;
  Fd ready_pipe_;
  std::string ready_text_;
  bool ready_ = false;
  bool ever_ready_ = false;
  uint32_t failures_ = 0;  // in a row
  uint32_t restarts_ = 0;
  base::Monotonic started_;
  base::Monotonic next_start_;
  std::string last_end_;
};

// The delay before start number `failures` + 1.
Millis backOff(uint32_t failures, Millis longest = kLongestDelay);

}  // namespace cloister::supervisor
