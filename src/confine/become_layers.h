// SPDX-License-Identifier: Apache-2.0
// The process of SpawnRequest::What::kLayers. The process makes read-only mounts of dependency
// layers, enters the mount namespace of a sandbox, and attaches the mounts there.
//
// The request's descriptors: a SOCK_SEQPACKET socket for the single answer, and the pidfd of the
// sandbox's first process. The answer is kDone, or an error's text.
#pragma once

#include "confine/spawn_loop.h"

namespace cloister::runtime {

[[noreturn]] void becomeLayers(Birth& birth);

}  // namespace cloister::runtime
