// SPDX-License-Identifier: Apache-2.0
// Child processes of the command line: the supervised daemons and the private server.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

struct Program {
  std::vector<std::string> argv;      // argv[0] is the path
  std::vector<std::string> env = {};  // NAME=value, complete
  std::vector<int> pass = {};         // kept open, under the same numbers
  std::vector<int> listeners =
      {};              // become 3, 4, … with LISTEN_FDS and LISTEN_PID (sd_listen_fds(3))
  int stderr_fd = -1;  // -1: ours
  int stdin_fd = -1;   // -1: none
  int stdout_fd = -1;  // -1: on stderr
};

// Starts the program in its own process group, with default signals. All descriptors given here
// must be kFirstSafeFd or higher. Call from a process with a single thread.
inline constexpr int kFirstSafeFd = 64;
Result<pid_t> start(const Program& program);

// Both ends close-on-exec and at least kFirstSafeFd.
struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> makePipe();
Result<Fd> moveUp(Fd fd);

// "exited with status 1", "was killed by SIGSEGV".
std::string describeExit(int wait_status);

// This process's environment without the given names.
std::vector<std::string> environmentWithout(const std::vector<std::string>& names);

}  // namespace cloister::supervisor
