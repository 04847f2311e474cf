// SPDX-License-Identifier: Apache-2.0
// A sandbox: the runner in namespaces of its own, as nobody, under the node's system call filter
// and the limits of its parameters (wire/guest.h), in a machine those of a control group too.
#pragma once

#include <sys/types.h>

#include "base/fd.h"
#include "guest/ground.h"
#include "guest/group.h"

namespace cloister::guest {

class Sandbox {
 public:
  struct How {
    unsigned number = 0;  // 0: the first, else one within it
    Fd runner;            // the runner's end of its stream
    Fd nester;            // of the first: its end of the socket for sandboxes within
    pid_t first = -1;     // of one within: the first one's first process
  };
  // Gives up where any of it fails.
  void start(const Ground& ground, How how);
  // Ends all that is in it, and waits for that. Of one that has a waiting parent.
  void end();

  // Its first process.
  [[nodiscard]] pid_t runner() const { return runner_; }
  // Where nothing else holds its memory to the limit: looks, and ends it when it is over. To be
  // called every so often.
  [[nodiscard]] bool isLookedAt() const { return !group_; }
  void look();
  [[nodiscard]] Counts counts() const { return group_ ? group_.counts() : seen_; }
  // poll(2) says POLLPRI when counts() has changed; -1 where it is looked at.
  [[nodiscard]] int events() const { return group_.memoryEvents(); }

 private:
  Group group_;  // none in a container
  Counts seen_;
  pid_t runner_ = -1;
};

}  // namespace cloister::guest
