// SPDX-License-Identifier: Apache-2.0
// The control group of a sandbox in a machine (cgroup v2), which enforces the limits and counts the
// usage. The group of a nested sandbox lies in the outer sandbox's group, so that the limits of
// both sandboxes apply. A group that delegates controllers has no processes (cgroups(7)), so the
// outer sandbox's own processes are in a group beside the nested sandboxes' groups.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// Counts of a group's own processes, and the use of the group with all descendants.
struct Counts {
  uint64_t memory_peak = 0;  // bytes
  uint64_t killed = 0;       // processes, for lack of memory
  uint64_t refused = 0;      // processes
};

class Group {
 public:
  // Makes a group with the limits of the process's parameters. `number` 0: the first sandbox's;
  // else an inner sandbox's.
  void make(unsigned number);
  // Puts the calling process into the group, and into a namespace that shows no other groups.
  void enter() const;
  // Removes the group, which must have no processes. The group is empty a moment after its last
  // process has ended.
  void remove();

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(own_); }
  // A descriptor with POLLPRI (poll(2)) when the kernel has killed for lack of memory since
  // counts().
  [[nodiscard]] int memoryEvents() const { return memory_events_.get(); }
  [[nodiscard]] Counts counts() const;

 private:
  char path_[64] = "";
  Fd own_;  // of its processes: its directory
  Fd memory_events_;
  Fd memory_peak_;
  Fd pids_events_;
  Fd whole_pids_events_;  // of the first group: refusals by its limit, on newer kernels
};

}  // namespace cloister::guest
