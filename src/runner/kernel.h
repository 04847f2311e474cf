// SPDX-License-Identifier: Apache-2.0
// The runner's own programs for kernels and their cells: see wire/kernel.h. They run in a process
// of their own, forked from the runner, with a program's standard streams, and return its exit
// code.
#pragma once

#include "base/fd.h"

namespace cloister::runner {

// `kernel DIR CWD ARGUMENT…`, with the environment of the process; returns only if it fails.
int becomeKernel(char** argv);
// `cell DIR CODE`.
int runCell(char** argv);
// What a kernel that is met in `dir` writes, for reading without waiting; none if it is not there.
Fd openKernelFifo(const char* dir, const char* name);

}  // namespace cloister::runner
