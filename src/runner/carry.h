// SPDX-License-Identifier: Apache-2.0
// Carries bytes between a program's standard streams and a stream socket.
#pragma once

namespace cloister::runner {

// Copies stdin to `socket` up to the end of stdin, which shuts down writing; copies the socket's
// data to stdout until its end. Buffers are bounded: a slow writer pauses reading. Returns errno.
// Call once in a process.
int carry(int socket);

}  // namespace cloister::runner
