// SPDX-License-Identifier: Apache-2.0
// KernelOutputs: what kernels and what their cells left running write while no cell runs. The cell
// reads a kernel's FIFOs while it runs; from its end on the runner does, so that nobody who writes
// is held up, and hands the tail of it to the next cell. One thread, no heap.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/fd.h"
#include "runner/left_over.h"
#include "runner/tail.h"

namespace cloister::runner {

class KernelOutputs {
 public:
  static constexpr size_t kMost = 16;  // kernels of a session
  static constexpr int kNone = -1;
  struct Stream {
    Fd fd;  // for reading: it ends with the last that has the FIFO open
    bool ready;
    Tail* tail;
  };

  // In the copy of the runner that is the cell: what was written before it.
  [[nodiscard]] const Stream* before(const char* dir);

  // A kernel is about to be made in `dir`: what there was before it goes to `left_over`, and is
  // none of its cells'.
  void renew(const char* dir, LeftOver& left_over);
  // A cell of the kernel that is met in `dir` has been started: it reads the FIFOs now, and has
  // what came before. kNone where there is no room.
  int begin(const char* dir);
  // That cell has ended. FIFOs that the kernel has made anew since the last take the place of the
  // old ones, which go to `left_over`.
  void end(int kernel, LeftOver& left_over);

  template <class Add>
  void each(Add add) {
    for (Kernel& kernel : kernels_) {
      for (Stream& stream : kernel.streams) {
        if (kernel.cells == 0 && stream.fd) add(stream.fd, stream.ready);
      }
    }
  }
  void serve();

 private:
  struct Kernel {
    char* dir;  // PATH_MAX bytes; null where there has been no kernel
    int cells;  // that meet it: in a copy of a session's memory one may go on beside another
    Stream streams[2];  // stdout, stderr
  };

  [[nodiscard]] Kernel* find(const char* dir);
  [[nodiscard]] Kernel* make(const char* dir);

  Kernel kernels_[kMost];
};

// The runner's, and in its copies as it was then.
extern KernelOutputs the_kernel_outputs;

}  // namespace cloister::runner
