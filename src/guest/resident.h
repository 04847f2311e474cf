// SPDX-License-Identifier: Apache-2.0
// The resident memory of the processes of a pid namespace, for sandboxes without a control group to
// count the memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cloister::guest {

// Resident bytes of all processes in the namespace of `first`; shared pages count for each process.
// 0 if `first` has ended.
uint64_t residentBytes(pid_t first);

}  // namespace cloister::guest
