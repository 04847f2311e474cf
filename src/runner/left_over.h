// SPDX-License-Identifier: Apache-2.0
// LeftOver: the output of what outlives its program in a session. The pipes of a program that has
// ended stay open here while another process has them: a server that was started with `&` goes on
// as it would in a terminal, neither ended by SIGPIPE nor held up by a full pipe. Of what it writes
// the last is in the sandbox's own files,
//
//   /tmp/.cloister-output/PID.stdout, PID.stderr      PID: of the program that has ended
//
// with at least the last kKept bytes. One thread, no heap. What is in /tmp belongs to the programs:
// they may read, change or remove it, and can mislead themselves only.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/fd.h"

namespace cloister::runner {

class LeftOver {
 public:
  static constexpr size_t kMost = 128;     // number of pipes; pipes of later programs are closed
  static constexpr size_t kKept = 65'536;  // bytes kept of each; a file holds at most twice as many

  // Takes over the non-blocking `pipe` if a process has its other end open.
  void take(Fd& pipe, pid_t program, const char* stream);

  // Calls `add(fd, ready)` for each pipe. Set `ready` when the pipe is readable.
  template <class Add>
  void each(Add add) {
    for (Pipe& pipe : pipes_) {
      if (pipe.fd) add(pipe.fd, pipe.ready);
    }
  }
  // Reads ready pipes.
  void serve();

 private:
  struct Pipe {
    Fd fd;
    Fd file;
    bool ready;
    size_t written;  // since the file was last cut
    pid_t program;
    const char* stream;
  };

  static void empty(Pipe& pipe);
  static void keep(Pipe& pipe, const char* bytes, size_t size);

  Pipe pipes_[kMost];
};

}  // namespace cloister::runner
