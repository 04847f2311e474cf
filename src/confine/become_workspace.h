// SPDX-License-Identifier: Apache-2.0
// What a process made for SpawnRequest::What::kWorkspace does: it enters the user and mount
// namespace of a sandbox, and hands out a mount of what is at /workspace there, with which other
// sandboxes of the same user can have those files as theirs (SandboxSpec::shares).
//
// The request's descriptors: a SOCK_SEQPACKET socket for its one answer, and the pidfd of the
// sandbox's first process. The answer is kDone with the mount, or an error's text.
#pragma once

#include "confine/spawn_loop.h"

namespace cloister::runtime {

[[noreturn]] void becomeWorkspace(Birth& birth);

}  // namespace cloister::runtime
