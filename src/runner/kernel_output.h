// SPDX-License-Identifier: Apache-2.0
// KernelOutputs: the output of kernels, and of processes that cells left running, while no cell
// runs. A running cell reads its kernel's FIFOs. From the cell's end on the runner reads the FIFOs,
// so that no writer blocks, and hands the tail of the output to the next cell. One thread, no heap.
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
    Fd fd;  // for reading: ends when the last process closes the FIFO
    bool ready;
    Tail* tail;
  };

  // In the copy of the runner that runs the cell: earlier output.
  [[nodiscard]] const Stream* before(const char* dir);

  // Call before an interpreter is made in `dir`: the FIFOs of its predecessor go to `left_over`,
  // and belong to no cell of the new interpreter.
  void renew(const char* dir, LeftOver& left_over);
  // Call after the start of a cell of the interpreter in `dir`: the cell now reads the FIFOs, and
  // has earlier output. kNone without room.
  int begin(const char* dir);
  // Call after the end of the cell. FIFOs remade by the interpreter replace the old FIFOs, which go
  // to `left_over`.
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
    char* dir;          // PATH_MAX bytes; null where there has been no kernel
    int cells;          // number of running cells: in a resumed session two may overlap
    Stream streams[2];  // stdout, stderr
  };

  [[nodiscard]] Kernel* find(const char* dir);
  [[nodiscard]] Kernel* make(const char* dir);

  Kernel kernels_[kMost];
};

// The runner's object. A copy of the runner has the state at the time of the copy.
extern KernelOutputs the_kernel_outputs;

}  // namespace cloister::runner
