// SPDX-License-Identifier: Apache-2.0
// The number of files that processes have open, from /proc (proc_pid_fd(5)), in fixed memory.
// Another user's processes and ended processes yield no number. One thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "runner/channel.h"

namespace cloister::runner {

// The number of open descriptors of `pid`; 0 if unknown.
uint32_t openFilesOf(pid_t pid);

// The size of its descriptor table, which never shrinks: no more were ever open at once. 0 if
// unknown.
uint32_t fileTableOf(pid_t pid);

// Whether the output has the message of EMFILE (strerror(3)); sandbox/box/limit_hits.h knows other
// messages.
bool saysTooManyFiles(std::string_view output);

// The size of the table of `pid` if alive, alone in its session and without reaped children, so
// that its output is its own. 0 otherwise.
uint32_t tableIfAlone(pid_t pid);

// When to look at programs: soon after a start, then less and less often, as most end soon.
class LookTimer {
 public:
  // Starts again, for a new program.
  void restart();
  // For poll(2): milliseconds until the next look.
  [[nodiscard]] int untilDue() const;
  // Whether a look is due; then schedules the next.
  bool due();

 private:
  int64_t at_ms_ = 0;
  int64_t pause_ms_ = 0;
};

// Updates each watched channel with the maximum of open files of a process in its session.
void lookAtOpenFiles(Channel* channels, size_t count);

}  // namespace cloister::runner
