// SPDX-License-Identifier: Apache-2.0
// What makes a kernel that has just started one that a sandbox can be made on.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// The machine's end, with a line on its console that says why; `why` nullptr: none.
[[noreturn]] void powerOff(const char* why);
// The same, with errno's text.
[[noreturn]] void giveUp(const char* doing);

// A number of the kernel's parameters (wire/guest.h); ends the machine where there is none.
uint64_t parameter(const char* name);

// The kernel's own file systems, its modules, and the disk as a read-only root at kRoot.
void prepareMachine();
inline constexpr char kRoot[] = "/root";

// The node's port: of vsock where the parameters name one, else the virtio port.
Fd openPort();

}  // namespace cloister::guest
