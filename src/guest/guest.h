// SPDX-License-Identifier: Apache-2.0
// The guest: pid 1 of a virtual machine that is one sandbox, or of a gVisor container that has
// sandboxes within it.
//
// In a machine it makes that usable (devices, file systems, a control group), starts the runner in
// namespaces of its own as nobody, and carries the runner's frames to the node's port and back,
// with the control group's counts between them. When the runner ends, or the node hangs up, the
// machine does. In a container most of that is there, and the runner has the node's stream itself.
// In both a runner can ask for sandboxes within its own (nester.h): for those there has to be
// somebody who is root here, and not under the filter of programs.
//
// Static against musl, without a C++ run-time library and without a heap, like the runner. What it
// says is hostile to the node all the same: whoever breaks the guest's kernel speaks for it.
#pragma once

namespace cloister::guest {

// Never return: the end of pid 1 ends all other processes.
[[noreturn]] void run();
[[noreturn]] void runInContainer();

}  // namespace cloister::guest
