// SPDX-License-Identifier: Apache-2.0
// The way of bytes between a program's standard streams and a stream socket.
#pragma once

namespace cloister::runner {

// What stdin brings goes to `socket`, and the end of stdin is the end of what is written there;
// what that says goes to stdout, until its end. Bounded: what cannot be written is waited for.
// Returns errno. Once in a process.
int carry(int socket);

}  // namespace cloister::runner
