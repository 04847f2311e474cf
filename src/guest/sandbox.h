// SPDX-License-Identifier: Apache-2.0
// The machine's one sandbox: a control group, and the runner in it, in namespaces of its own, as
// nobody, under the program's limits and the node's system call filter.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// What the sandbox's control group has counted.
struct Counts {
  uint64_t memory_peak = 0;  // bytes
  uint64_t killed = 0;       // processes, for lack of memory
  uint64_t refused = 0;      // processes
};

class Sandbox {
 public:
  // Ends the machine where any of it fails.
  void start();
  // The node's side of the runner's socket.
  [[nodiscard]] int socket() const { return socket_.get(); }
  // poll(2) says POLLPRI when the kernel has killed for lack of memory since counts() was asked.
  [[nodiscard]] int memoryEvents() const { return memory_events_.get(); }
  [[nodiscard]] Counts counts() const;

 private:
  void makeGroup();
  [[nodiscard]] Fd look(const char* name) const;

  Fd group_;  // its directory
  Fd memory_events_;
  Fd memory_peak_;
  Fd pids_events_;
  Fd socket_;
};

}  // namespace cloister::guest
