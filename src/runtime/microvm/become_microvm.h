// SPDX-License-Identifier: Apache-2.0
// What a new process does to become the VMM of a virtual machine: a child of the spawner that takes
// on the whole confinement of a sandbox of the process runtime, and then executes QEMU instead of
// the runner. What breaks out of the machine is where a program of that runtime would be.
#pragma once

#include "runtime/process/confine.h"
#include "runtime/process/spawn_loop.h"

namespace cloister::runtime {

// `birth` is of a SpawnRequest::What::kMicrovm. Does not return: what fails is said to the node
// like a sandbox's failure, or by QEMU and the guest's kernel on the pipe that came with the
// request.
[[noreturn]] void becomeMicrovm(Confinement confinement, Birth& birth);

}  // namespace cloister::runtime
