// SPDX-License-Identifier: Apache-2.0
// LeftOver: the output of processes that outlive their program in a session. The pipes of an ended
// program stay open here while another process has the pipes open. So a server that was started
// with `&` goes on as in a terminal, neither ended by SIGPIPE nor blocked by a full pipe. The end
// of the output is in the sandbox's own files,
//
//   /tmp/.cloister-output/PID.stdout, PID.stderr      PID: of the program that has ended
//
// with at least the last kKept bytes. One thread, no heap. The files in /tmp belong to the
// programs. The programs may read, change or remove the files, and can mislead only themselves.
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
