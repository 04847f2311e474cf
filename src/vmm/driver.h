// SPDX-License-Identifier: Apache-2.0
// The driver of Firecracker: the program that a sandbox of the runtime microvm has where others
// have their VMM (docs/adr/0056). It starts Firecracker as its child, makes the machine by its API,
// and carries the runner's frames between the node's socket (wire::kRunnerFd) and the one vsock
// connection that the guest makes.
//
//   node ◀── fd 3 ──▶ cloister-firecracker ◀── v.sock_PORT ──▶ firecracker ◀── vsock ──▶ guest
//                       └──────────── api.sock ───────────────▶ ┘
//
// A machine boots; or it boots to be kept, and Firecracker is told to leave its memory and its
// state in two files when the node orders that; or it is what was kept so (docs/adr/0060).
//
// It is confined before it is executed, and pid 1 of its namespace: with its end ends Firecracker,
// and with Firecracker's, or either side's of the relay, its own. One thread, no heap, static
// against musl. What Firecracker says is hostile: whoever breaks out of the machine speaks for it.
#pragma once

namespace cloister::vmm {

enum class Begins { kBoots, kToBeKept, kAsKept };

struct Orders {
  const char* firecracker;  // its path
  const char* sockets;      // the directory for sockets of both
  const char* kernel;       // paths that Firecracker opens, as the next two
  const char* initrd;
  const char* disk;
  const char* cpus;  // a number, as the next
  const char* mebibytes;
  const char* boot;  // the kernel's parameters
  Begins begins = Begins::kBoots;
  // Unless the machine just boots: paths that Firecracker opens, and the socket of the node's
  // order.
  const char* memory = nullptr;
  const char* state = nullptr;
  int socket = -1;
};

// Never returns. Reports a failed start to the node in the form of a runner's kStartFailed.
[[noreturn]] void drive(const Orders& orders);

}  // namespace cloister::vmm
