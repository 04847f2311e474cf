// SPDX-License-Identifier: Apache-2.0
// The control group of a sandbox in a machine (cgroup v2), which holds its limits and counts. That
// of a sandbox within another lies in the other's, so that both sandboxes' limits hold there; and
// as a group that hands controllers on has no processes (cgroups(7)), the first one's own processes
// are in a group beneath it beside those.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// What a group has counted of its own processes, and what they and all beneath have used.
struct Counts {
  uint64_t memory_peak = 0;  // bytes
  uint64_t killed = 0;       // processes, for lack of memory
  uint64_t refused = 0;      // processes
};

class Group {
 public:
  // By the process's parameters. `number` 0: the first; else that of one within.
  void make(unsigned number);
  // Puts the calling process into it, and into a namespace that shows no more.
  void enter() const;
  // Once it has no processes; it has none a moment after the last has ended.
  void remove();

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(own_); }
  // poll(2) says POLLPRI when the kernel has killed for lack of memory since counts() was asked.
  [[nodiscard]] int memoryEvents() const { return memory_events_.get(); }
  [[nodiscard]] Counts counts() const;

 private:
  char path_[64] = "";
  Fd own_;  // of its processes: its directory
  Fd memory_events_;
  Fd memory_peak_;
  Fd pids_events_;
  Fd whole_pids_events_;  // of the first: what its limit refused, on newer kernels
};

}  // namespace cloister::guest
