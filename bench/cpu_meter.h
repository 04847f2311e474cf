// SPDX-License-Identifier: Apache-2.0
// How much processor time work takes, user and system. One thread.
//
// As root on cgroup v1 it is the time of this process and of all that it starts from then on,
// sandboxes included, to the nanosecond and whatever else the machine does: for as long as the
// meter lives they are in a cpuacct group of their own, beneath the one they were in. Otherwise it
// is the time that the whole machine was busy (proc(5), /proc/stat), which only tells on a quiet
// one.
#pragma once

#include <optional>
#include <string>

#include "linux/cgroup_files.h"

namespace cloister::bench {

class CpuMeter {
 public:
  // Call while this process has one thread, before it starts others.
  CpuMeter();
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;
  // What it measured has ended, but for this process.
  ~CpuMeter();

  // Since some time in the past.
  [[nodiscard]] double seconds() const;
  // Whose time it is, for the reader.
  [[nodiscard]] std::string what() const;

 private:
  std::optional<linux::GroupDir> before_;  // where this process was
  std::optional<linux::GroupDir> group_;   // its own; without it, the whole machine is measured
};

}  // namespace cloister::bench
