// SPDX-License-Identifier: Apache-2.0
// What the processes of a pid namespace have in memory, where no control group adds it up.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cloister::guest {

// Resident bytes of all processes in the namespace of `first`; shared pages count for each process.
// 0 if `first` has ended.
uint64_t residentBytes(pid_t first);

}  // namespace cloister::guest
