// SPDX-License-Identifier: Apache-2.0
// The processes of the sandbox, from /proc, in fixed memory. One thread only.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cloister::runner {

struct Process {
  pid_t pid;
  pid_t parent;
  pid_t session;
  char state;
  bool doomed;  // the caller's; false at first

  // The process runs no instructions: stopped, or dead.
  [[nodiscard]] bool still() const { return state == 'T' || state == 't' || ended(); }
  [[nodiscard]] bool ended() const { return state == 'Z' || state == 'X'; }
};

struct ProcessTable {
  static constexpr size_t kMax = 4096;
  Process rows[kMax];
  size_t count = 0;
  size_t vanished = 0;  // processes gone between listing and reading

  // Reads all processes again.
  void read();
};

}  // namespace cloister::runner
