// SPDX-License-Identifier: Apache-2.0
// What a new process does to become gVisor: a child of the spawner, in fresh namespaces, root of
// its own user namespace and nobody outside.
#pragma once

#include "confine/confine.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Of a request: a plan, its program, cloister-guest, and where it says why it cannot start.
inline constexpr uint32_t kGvisorFds = 4;

// `birth` is of a SpawnRequest::What::kGvisor. Does not return: what fails is said to the node like
// a sandbox's failure, or by runsc on the pipe that came with the request.
[[noreturn]] void becomeGvisor(const Confinement& confinement, Birth& birth);

}  // namespace cloister::runtime
