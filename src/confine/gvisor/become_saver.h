// SPDX-License-Identifier: Apache-2.0
// What a process made for SpawnRequest::What::kGvisorSave does: it joins the namespaces and cgroups
// of a gVisor sandbox, has `runsc checkpoint` write what runs there into a file system that only
// those two see, and hands the files out. It has no more rights than the sandbox's own `runsc run`.
//
// The request's descriptors: a SOCK_SEQPACKET socket for its one answer, the pidfd of the sandbox's
// first process, and runsc. `spec.guest_memory_bytes` bounds what is written. The answer is kDone
// with the files in the order of gvisor::kImageFiles, or an error's text.
#pragma once

#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Number of descriptors of a request besides the socket: the sandbox's first process, and runsc.
inline constexpr uint32_t kSaverFds = 2;

[[noreturn]] void becomeSaver(Birth& birth);

}  // namespace cloister::runtime
