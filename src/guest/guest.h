// SPDX-License-Identifier: Apache-2.0
// The guest: pid 1 of a virtual machine that is one sandbox. It makes the machine usable (devices,
// file systems, a control group), starts the runner in namespaces of its own as nobody, and carries
// the runner's frames to the node's port and back, with the control group's counts between them.
// When the runner ends, or the node hangs up, the machine does.
//
// Static against musl, without a C++ run-time library and without a heap, like the runner. What it
// says is hostile to the node all the same: whoever breaks the guest's kernel speaks for it.
#pragma once

namespace cloister::guest {

// Never returns: a pid 1 that ends is a panic, with which the machine ends too.
[[noreturn]] void run();

}  // namespace cloister::guest
