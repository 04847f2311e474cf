// SPDX-License-Identifier: Apache-2.0
// One supervised process: started, told apart as ready or not, started again after it died with a
// delay that doubles from 100 ms to 10 s and falls back once it has lived 30 s.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "supervisor/process.h"

namespace cloister::supervisor {

class Child {
 public:
  // `program` without the flags that name descriptors; they are added at each start.
  Child(std::string name, Program program) : name_(std::move(name)), program_(std::move(program)) {}

  Result<> startNow(int lifeline);
  // Its process has been reaped; when it is to be started again (never, unless startNow is called).
  void ended(int wait_status);
  // Reads the readiness pipe; true when this made it ready.
  bool checkReady();
  void signal(int signal) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }  // 0 when it does not run
  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] bool everReady() const { return ever_ready_; }
  [[nodiscard]] int readyFd() const { return pid_ > 0 && !ready_ ? ready_pipe_.get() : -1; }
  [[nodiscard]] base::Monotonic nextStart() const { return next_start_; }
  [[nodiscard]] const std::string& lastEnd() const { return last_end_; }
  [[nodiscard]] uint32_t restarts() const { return restarts_; }

 private:
  std::string name_;
  Program program_;
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
Millis backOff(uint32_t failures);

}  // namespace cloister::supervisor
