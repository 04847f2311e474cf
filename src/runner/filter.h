// SPDX-License-Identifier: Apache-2.0
// The system call filter where nothing could install it before the runner came: in a guest kernel,
// which knows the filters of its own processes only; seccomp(2).
#pragma once

namespace cloister::runner {

// Puts this process, and all that it starts, under the program in file `path`: sock_filter
// instructions as the node's kernel would take them. False if it cannot; then nothing may run.
bool enterFilter(const char* path);
// The same from an open file, which it reads from the start.
bool enterFilter(int file);

}  // namespace cloister::runner
