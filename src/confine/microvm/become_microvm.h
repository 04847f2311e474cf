// SPDX-License-Identifier: Apache-2.0
// The steps by which a new process becomes the VMM of a virtual machine. A child of the spawner
// takes on the whole confinement of a sandbox of the process runtime, and then executes a VMM
// (vmm.h) instead of the runner. Code that breaks out of the machine has the rights of a program of
// the process runtime.
#pragma once

#include <string>
#include <vector>

#include "confine/confine.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// `birth` must be of SpawnRequest::What::kMicrovm. Does not return. Failures are reported to the
// node like a sandbox's failure, or by the VMM and the guest's kernel on the pipe of the request.
[[noreturn]] void becomeMicrovm(Confinement confinement, Birth& birth);

namespace microvm {

// Executes a VMM's command. `given`: the program is open at the runner's descriptor; else the
// command names the program. Returns only on failure.
Error executeVmm(const std::vector<std::string>& command, bool given);

}  // namespace microvm
}  // namespace cloister::runtime
