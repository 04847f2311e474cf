// SPDX-License-Identifier: Apache-2.0
// A sandbox within the sandbox, for the node: pid 1 makes the inner sandbox (wire/guest.h), and the
// inner runner talks to the node over the standard streams of a program of this runner.
#pragma once

namespace cloister::runner {

// The number of the socket for requests of inner sandboxes, or -1 without support.
void takeNester(int fd);
int nester();

// The built-in program: sends a request with the parameters argv[1...] on descriptor `socket`, and
// carries the inner runner's stream until its end, or until stdin ends, which ends the sandbox.
// Returns an exit code.
int nest(int socket, char** argv);

}  // namespace cloister::runner
