// SPDX-License-Identifier: Apache-2.0
// gVisor: a guest (sandbox/host/guest.h) whose kernel is gVisor's. This program in Go handles every
// system call of the sandbox itself and asks the host for little. `runsc` starts its parts:
//
//   spawner ─clone3─▶ runsc run        pid 1 of the sandbox's namespaces on the host
//                      ├─ runsc-gofer    opens files of the read-only root for the kernel
//                      └─ runsc-sandbox  the guest kernel: cloister-runner is pid 1 of its own
//
// All parts are in the sandbox's cgroup; the end of pid 1 ends all parts.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sandbox/host/guest.h"

namespace cloister::runtime {

struct GvisorConfig {
  std::string runsc;            // path of runsc
  uint32_t ready = 2;           // sandboxes made ahead, at most
  uint64_t overhead_bytes = 0;  // memory of gVisor itself, on top of the program's limit
  std::string guest;            // path of cloister-guest; "": no sandboxes within
};

// Asks `runsc` for its version, with a timeout of a few seconds. Call while the process has a
// single thread.
GuestFound findGvisor(const GvisorConfig& config);

}  // namespace cloister::runtime
