// SPDX-License-Identifier: Apache-2.0
// The process of SpawnRequest::What::kGvisorSave. The process joins the namespaces and cgroups of a
// gVisor sandbox and has `runsc checkpoint` write the running state into a file system that only
// the two processes see. Then the process hands the files out. The process has no more rights than
// the sandbox's own `runsc run`.
//
// The request's descriptors: a SOCK_SEQPACKET socket for the single answer, the pidfd of the
// sandbox's first process, and runsc. `spec.guest_memory_bytes` bounds the bytes written. The
// answer is kDone with the files in the order of gvisor::kImageFiles, or an error's text.
#pragma once

#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Number of descriptors of a request besides the socket: the sandbox's first process, and runsc.
inline constexpr uint32_t kSaverFds = 2;

[[noreturn]] void becomeSaver(Birth& birth);

}  // namespace cloister::runtime
