// SPDX-License-Identifier: Apache-2.0
// Measures processor time, user and system. One thread.
//
// As root on cgroup v1, the meter measures this process and all later children, sandboxes included,
// to the nanosecond and independent of other load: during the meter's life they are in a cpuacct
// group of their own, below the former group. Otherwise the meter measures the busy time of the
// whole machine (proc(5), /proc/stat), which is meaningful only on a quiet machine.
#pragma once

#include <optional>
#include <string>

#include "linux/cgroup_files.h"

namespace cloister::bench {

class CpuMeter {
 public:
  // Call while this process has a single thread, before other threads start.
  CpuMeter();
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;
  // All measured processes have ended, except this process.
  ~CpuMeter();

  // Since some time in the past.
  [[nodiscard]] double seconds() const;
  // The subject of the measurement, for the reader.
  [[nodiscard]] std::string what() const;

 private:
  std::optional<linux::GroupDir> before_;  // the former group of this process
  std::optional<linux::GroupDir> group_;   // the meter's own; without it, the whole machine counts
};

}  // namespace cloister::bench
