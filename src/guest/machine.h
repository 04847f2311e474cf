// SPDX-License-Identifier: Apache-2.0
// What makes a kernel that has just started one that a sandbox can be made on.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// The machine's end, with a line on its console that says why; `why` nullptr: none. In a process
// that has called endAlone() it is that process's end alone.
[[noreturn]] void powerOff(const char* why);
// The same, with errno's text.
[[noreturn]] void giveUp(const char* doing);

// What ends this process from now on is told as kStartFailed on `stream`, a runner's, and ends no
// machine.
void endAlone(int stream);
// Such an end of this process is that of `sandbox`, its child, too.
void endWith(pid_t sandbox);

// Writes a file of the kernel's; gives up where it does not take it.
void writeText(const char* path, const char* text);

// A number of the kernel's parameters (wire/guest.h), or of the process's environment; ends the
// machine where there is none.
uint64_t parameter(const char* name);

// The kernel's own file systems, its modules, and the disk as a read-only root at kRoot.
void prepareMachine();
inline constexpr char kRoot[] = "/root";
// Where a sandbox mounts what is writable in it, in a mount namespace of its own.
inline constexpr char kScratchPlace[] = "/run/scratch";

// The node's port: of vsock where the parameters name one, else the virtio port.
Fd openPort();
// Whether that is a connection that can be made again.
bool connectsToNode();
// Makes it again, once the node has said all it will on `port`, and until there is somebody at the
// other end: whoever keeps this machine takes no connection.
Fd reopenPort(Fd port);

}  // namespace cloister::guest
