// SPDX-License-Identifier: Apache-2.0
// A sandbox within the sandbox, for the node: pid 1 makes it (wire/guest.h), and its runner speaks
// with the node on the standard streams of a program of this one's.
#pragma once

namespace cloister::runner {

// The number of the socket on which it is asked for, or -1 where none is made here.
void takeNester(int fd);
int nester();

// The program: asks on descriptor `socket` with the parameters argv[1...], and carries the other
// runner's stream until that ends, or stdin does, which ends the sandbox. Returns an exit code.
int nest(int socket, char** argv);

}  // namespace cloister::runner
