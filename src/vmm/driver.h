// SPDX-License-Identifier: Apache-2.0
// The driver of Firecracker: a sandbox of the runtime microvm executes the driver in place of a VMM
// (docs/adr/0056). The driver starts Firecracker as its child, makes the machine over Firecracker's
// API, and carries the runner's frames between the node's socket (wire::kRunnerFd) and the guest's
// one vsock connection.
//
//   node ◀── fd 3 ──▶ cloister-firecracker ◀── v.sock_PORT ──▶ firecracker ◀── vsock ──▶ guest
//                       └──────────── api.sock ───────────────▶ ┘
//
// A machine begins in one of three ways. It boots; or it boots to be kept, and at the node's order
// Firecracker saves memory and state in two files; or it starts from two such files
// (docs/adr/0060).
//
// The driver is confined before its execution, and is pid 1 of its namespace: with the driver's end
// Firecracker ends. The driver ends when Firecracker ends, or either side of the relay. One thread,
// no heap, static against musl. Firecracker's messages are hostile: an attacker who breaks out of
// the machine controls the messages.
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
  // The tap interface of a machine with a network, and the guest's Ethernet address; nullptr: none.
  const char* interface = nullptr;
  const char* ethernet = nullptr;
};

// Never returns. Reports a failed start to the node in the form of a runner's kStartFailed.
[[noreturn]] void drive(const Orders& orders);

}  // namespace cloister::vmm
