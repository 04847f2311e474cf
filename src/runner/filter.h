// SPDX-License-Identifier: Apache-2.0
// Installs the system call filter where no earlier process could: in a guest kernel, which knows
// only the filters of its own processes; seccomp(2).
#pragma once

namespace cloister::runner {

// Installs the filter in file `path` on this process and its children: sock_filter instructions in
// the node kernel's format. False on failure; then no program may run.
bool enterFilter(const char* path);
// The same from an open file, read from the start.
bool enterFilter(int file);

}  // namespace cloister::runner
