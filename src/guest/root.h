// SPDX-License-Identifier: Apache-2.0
// The root file system of a sandbox, as seen by its own processes. The process that becomes the
// runner calls these functions, in a mount namespace of its own, while still root.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "guest/ground.h"

namespace cloister::guest {

// The user of a sandbox's programs.
inline constexpr unsigned kSandboxUser = 1000;
// Values of wire::guest::kWrites.
inline constexpr uint64_t kWritesAll = 0;
inline constexpr uint64_t kWritesNone = 2;

// Makes the sandbox's own file systems (/proc, /dev, writable directories, bounded by its
// parameters) and enters the root. `within`: for an inner sandbox, which sees nothing of the outer
// sandbox except the workspace, if its parameters say so (wire::guest::kShares). In a container the
// first sandbox's file systems already exist. `first`: with `within`, the outer sandbox's first
// process. Ends this process on failure.
void enterRoot(const Ground& ground, bool within, pid_t first);

}  // namespace cloister::guest
