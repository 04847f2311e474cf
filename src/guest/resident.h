// SPDX-License-Identifier: Apache-2.0
// What the processes of a pid namespace have in memory, where no control group adds it up.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cloister::guest {

// Bytes, of all processes that are in the namespace of `first`; what they share counts for each. 0
// where it has ended.
uint64_t residentBytes(pid_t first);

}  // namespace cloister::guest
