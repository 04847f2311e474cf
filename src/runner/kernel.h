// SPDX-License-Identifier: Apache-2.0
// The runner's own programs for kernels and their cells: see wire/kernel.h. The programs run in a
// process of their own, forked from the runner, with a program's standard streams, and return its
// exit code.
#pragma once

#include "base/fd.h"

namespace cloister::runner {

// `kernel DIR CWD ARGUMENT…`, with the environment of the process; returns only on failure.
int becomeKernel(char** argv);
// `cell DIR CODE`.
int runCell(char** argv);
// Opens an output FIFO of the interpreter in `dir` for non-blocking reads; none if absent.
Fd openKernelFifo(const char* dir, const char* name);

}  // namespace cloister::runner
