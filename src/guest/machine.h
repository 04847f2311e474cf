// SPDX-License-Identifier: Apache-2.0
// Prepares a machine whose kernel has just started, so that a sandbox can be made in the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"

namespace cloister::guest {

// Ends the machine, with the reason `why` on its console; nullptr: no line. After endAlone(), ends
// only the calling process.
[[noreturn]] void powerOff(const char* why);
// The same, with errno's text.
[[noreturn]] void giveUp(const char* doing);

// From now on a failure of this process is reported as kStartFailed on `stream`, a runner's stream,
// and ends no machine.
void endAlone(int stream);
// From now on a failure of this process also ends its child `sandbox`.
void endWith(pid_t sandbox);

// Writes a kernel file; gives up if the kernel refuses the text.
void writeText(const char* path, const char* text);

// A number of the kernel's parameters (wire/guest.h), or of the process's environment; ends the
// machine where there is none.
uint64_t parameter(const char* name);

// Loads the modules in the directory, in the order of their names; gives up if one is not loaded.
void loadModules(const char* directory);

// The kernel's own file systems, its modules, its network, and the disk as a read-only root at
// kRoot.
void prepareMachine();
inline constexpr char kRoot[] = "/root";
// Mount point of a sandbox's writable file system, in its own mount namespace.
inline constexpr char kScratchPlace[] = "/run/scratch";

// Opens the node's port: vsock if the parameters name a port number, else the virtio port.
Fd openPort();
// Whether the port is a connection that can be made again.
bool connectsToNode();
// Connects again after the node has closed `port`. Retries until a peer accepts: the process that
// saves this machine accepts no connection.
Fd reopenPort(Fd port);

}  // namespace cloister::guest
