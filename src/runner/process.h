// SPDX-License-Identifier: Apache-2.0
// Starting a program.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/fd.h"

namespace cloister::runner {

// For close_range(2). Not ~0U: a kernel that reads it as a signed number, as gVisor does, refuses
// it.
inline constexpr unsigned kLastFd = ~0U >> 1;

// From now on each program that is started sets its limit of processor time anew (wire/runner.h).
void setLimitsAnew();

struct Command {
  char** argv = nullptr;  // argv[0] without a slash is looked up in the PATH of `envp`
  char** envp = nullptr;
  const char* cwd = nullptr;
};

// Files of control groups that the program joins (wire::ToRunner::kGroups), still owned by the
// caller.
struct Groups {
  const Fd* files = nullptr;
  size_t count = 0;
};

// The program's ends of its standard streams, still owned by the caller.
struct Stdio {
  int in = -1;
  int out = -1;
  int err = -1;
};

struct Spawned {
  pid_t pid = -1;
  int error = 0;          // errno when it could not be started
  const char* what = "";  // then: the step that failed
};

// Becomes `command`, in its environment and where this process is. Returns errno.
int execInPath(const Command& command);

// Runs `command` in a session of its own, with these three fds and no other, all signals at their
// defaults. Returns once it has been executed or has failed. One thread only.
Spawned spawn(const Command& command, const Stdio& stdio, const Groups& groups);

// Runs `command` on the terminal `terminal`, which becomes the controlling one of a new session.
// The process given leads that session and stays until the program has ended, then ends as it did:
// were the program to lead it, the kernel would throw away what the terminal still holds at its
// end. Signals that it gets go on to the program's process group.
Spawned spawnOnTerminal(const Command& command, int terminal, const Groups& groups);

// The same for a program that is a function of ours, `main(fd, argv)`: it runs in a copy of this
// process, with `fd` open beside the three.
Spawned spawn(int (*main)(int fd, char** argv), int fd, char** argv, const Stdio& stdio,
              const Groups& groups);

}  // namespace cloister::runner
