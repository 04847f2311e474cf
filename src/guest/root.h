// SPDX-License-Identifier: Apache-2.0
// The root file system of a sandbox, as its own processes see it. Called by the process that
// becomes the runner, in a mount namespace of its own, while it is still root.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "guest/ground.h"

namespace cloister::guest {

// Who runs in a sandbox.
inline constexpr unsigned kSandboxUser = 1000;
// Of wire::guest::kWrites.
inline constexpr uint64_t kWritesAll = 0;
inline constexpr uint64_t kWritesNone = 2;

// Makes what is the sandbox's own (/proc, /dev, what is writable, in the bounds of its parameters)
// and goes there. `within`: for one within another, of which nothing is to be seen but, where its
// parameters say so (wire::guest::kShares), the workspace; of a container the first one's is there
// already. `first`: the first process of that other, where `within`. Ends this process where any of
// it fails.
void enterRoot(const Ground& ground, bool within, pid_t first);

}  // namespace cloister::guest
