// SPDX-License-Identifier: Apache-2.0
// cloister-krun: the VMM of a machine that libkrun runs. The process runtime executes cloister-krun
// in QEMU's place, in the same confinement:
//
//   cloister-krun ──fork──▶ libkrun's process, which becomes the machine (krun_start_enter)
//     │ relay (relay.h)        └─ vsock port ─▶ Unix socket ─▶ the relay's listener
//     └─ fd 3 ─▶ the node
//
// The two processes end together, whichever ends first, and neither holds the other's descriptors.
//
//   cloister-krun LIBRARY ROOT SOCKET PORT CPUS MEBIBYTES [NAME=VALUE]...
//   cloister-krun --check LIBRARY
//
// ROOT is the machine's root directory, shown by virtio-fs; ROOT must not be writable. SOCKET is
// the path of the socket that awaits the machine's one connection. The guest makes the connection
// to the host's vsock(7) port PORT. The remaining arguments are the guest's environment
// (wire/guest.h). --check prints the files of the library and of its kernel, a line for each, or
// the reason why the files cannot be used.
#pragma once

#include <span>

namespace cloister::krun {

// The result of main(): 0 when the machine has ended, 64 for unknown arguments, else 1, with the
// reason on stderr.
int drive(std::span<char* const> arguments);

}  // namespace cloister::krun
