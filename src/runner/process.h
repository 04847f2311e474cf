// SPDX-License-Identifier: Apache-2.0
// Starting a program.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/fd.h"

namespace cloister::runner {

// For close_range(2). Not ~0U, which a kernel with a signed number, such as gVisor, refuses.
inline constexpr unsigned kLastFd = ~0U >> 1;

// From now on each started program sets its limit of processor time again (wire/runner.h).
void setLimitsAnew();

struct Command {
  char** argv = nullptr;  // argv[0] without a slash is looked up in the PATH of `envp`
  char** envp = nullptr;
  const char* cwd = nullptr;
};

// Files of control groups that the program joins (wire::ToRunner::kGroups), owned by the caller.
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
  int error = 0;          // errno of a failed start
  const char* what = "";  // the failed step
};

// Executes `command`, with its environment and in the current directory. Returns errno.
int execInPath(const Command& command);

// Runs `command` in a new session, with only these three descriptors, and default signal
// dispositions. Returns after execution or failure. A single thread only.
Spawned spawn(const Command& command, const Stdio& stdio, const Groups& groups);

// Runs `command` on `terminal`, which becomes the controlling terminal of a new session. The
// returned process leads the session and stays until the program has ended, then ends with the same
// status: if the program led the session, the kernel would discard the terminal's remaining data at
// its end. The leader forwards its signals to the program's process group.
Spawned spawnOnTerminal(const Command& command, int terminal, const Groups& groups);

// The same for a program that is our function `main(fd, argv)`: runs in a copy of this process,
// with `fd` open besides the three.
Spawned spawn(int (*main)(int fd, char** argv), int fd, char** argv, const Stdio& stdio,
              const Groups& groups);

}  // namespace cloister::runner
