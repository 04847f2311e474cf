// SPDX-License-Identifier: Apache-2.0
// How many files processes have open, as /proc tells it (proc_pid_fd(5)), in fixed memory. What is
// another user's, or has ended, tells nothing. One thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "runner/channel.h"

namespace cloister::runner {

// How many descriptors `pid` has; 0 where that cannot be seen.
uint32_t openFilesOf(pid_t pid);

// How many its table has room for, which never becomes less: no more were ever open at once. 0
// where that cannot be seen.
uint32_t fileTableOf(pid_t pid);

// What a program says that could open no more (strerror(3)); sandbox/box/limit_hits.h has
// others.
bool saysTooManyFiles(std::string_view output);

// The table of `pid` if that is alive, alone in its session, and has waited for no child: whatever
// was said there is its own. 0 otherwise.
uint32_t tableIfAlone(pid_t pid);

// When programs are looked at: soon after one starts, then ever less often, as most end soon.
class LookTimer {
 public:
  // From now on there is one to look at that was not there before.
  void restart();
  // For poll(2): milliseconds until the next look.
  [[nodiscard]] int untilDue() const;
  // Whether that has come; then the next is set.
  bool due();

 private:
  int64_t at_ms_ = 0;
  int64_t pause_ms_ = 0;
};

// Into each of the channels that is watched, the most that one process of its session has open.
void lookAtOpenFiles(Channel* channels, size_t count);

}  // namespace cloister::runner
