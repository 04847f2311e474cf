// SPDX-License-Identifier: Apache-2.0
// The steps by which a new process becomes gVisor: a child of the spawner, in fresh namespaces,
// root of its own user namespace and nobody outside.
#pragma once

#include "confine/confine.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Number of descriptors of a request: plan, program, cloister-guest, and the error pipe.
inline constexpr uint32_t kGvisorFds = 4;

// `birth` must be of SpawnRequest::What::kGvisor. Does not return. Failures are reported to the
// node like a sandbox's failure, or by runsc on the pipe of the request.
[[noreturn]] void becomeGvisor(const Confinement& confinement, Birth& birth);

}  // namespace cloister::runtime
