// SPDX-License-Identifier: Apache-2.0
// What a new process does to become the VMM of a virtual machine: a child of the spawner that takes
// on the whole confinement of a sandbox of the process runtime, and then executes a VMM (vmm.h)
// instead of the runner. What breaks out of the machine is where a program of that runtime would
// be.
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
