// SPDX-License-Identifier: Apache-2.0
// A sandbox: the runner in namespaces of its own, as nobody, under the node's system call filter
// and the limits of its parameters (wire/guest.h). In a machine the limits of a control group apply
// too.
#pragma once

#include <sys/types.h>

#include "base/fd.h"
#include "guest/ground.h"
#include "guest/group.h"

namespace cloister::guest {

class Sandbox {
 public:
  struct How {
    unsigned number = 0;  // 0: the first sandbox, else an inner sandbox
    Fd runner;            // the runner's end of its stream
    Fd nester;            // of the first: its end of the socket for sandboxes within
    pid_t first = -1;     // for an inner sandbox: the first sandbox's first process
  };
  // Starts the sandbox; gives up on any failure.
  void start(const Ground& ground, How how);
  // Ends all processes inside and waits. Call in the parent process.
  void end();

  // Its first process.
  [[nodiscard]] pid_t runner() const { return runner_; }
  // Without a cgroup to enforce the memory limit: look() measures, and ends the sandbox above the
  // limit. Call regularly.
  [[nodiscard]] bool isLookedAt() const { return !group_; }
  void look();
  [[nodiscard]] Counts counts() const { return group_ ? group_.counts() : seen_; }
  // A descriptor with POLLPRI (poll(2)) when counts() has changed; -1 if isLookedAt().
  [[nodiscard]] int events() const { return group_.memoryEvents(); }

 private:
  Group group_;  // none in a container
  Counts seen_;
  pid_t runner_ = -1;
};

}  // namespace cloister::guest
