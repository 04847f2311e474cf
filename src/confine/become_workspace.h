// SPDX-License-Identifier: Apache-2.0
// The process of SpawnRequest::What::kWorkspace. The process enters the user and mount namespaces
// of a sandbox and hands out a mount of the sandbox's /workspace. Other sandboxes of the same user
// can share the files through the mount (SandboxSpec::shares).
//
// The request's descriptors: a SOCK_SEQPACKET socket for the single answer, and the pidfd of the
// sandbox's first process. The answer is kDone with the mount, or an error's text.
#pragma once

#include "confine/spawn_loop.h"

namespace cloister::runtime {

[[noreturn]] void becomeWorkspace(Birth& birth);

}  // namespace cloister::runtime
