// SPDX-License-Identifier: Apache-2.0
// The guest: pid 1 of a virtual machine that is one sandbox, or of a gVisor container that has
// sandboxes within it.
//
// In a machine the guest sets up devices, file systems and a control group, and starts the runner
// in namespaces of its own as nobody. The guest carries the runner's frames to the node's port and
// back, with the control group's counts between the frames. When the runner ends, or the node
// closes the connection, the machine ends. In a container most of the setup exists already, and the
// runner has the node's stream itself. In both a runner can ask for nested sandboxes (nester.h).
// Making these needs a process that is root here and not under the programs' system call filter.
//
// Static against musl, without a C++ run-time library and without a heap, like the runner. The node
// treats the guest's output as hostile: an attacker who breaks the guest's kernel controls the
// output.
#pragma once

namespace cloister::guest {

// Never return: the end of pid 1 ends all other processes.
[[noreturn]] void run();
[[noreturn]] void runInContainer();

}  // namespace cloister::guest
