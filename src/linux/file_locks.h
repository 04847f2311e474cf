// SPDX-License-Identifier: Apache-2.0
// The locks on files that processes hold, which take the kernel's memory and are charged to nobody.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace cloister::linux {

struct FileLocks {
  // By the process that took them, as the /proc that was read numbers it; -1: of an open file.
  // Each lock once, and never more than there were; fewer only of locks of several open files that
  // read the same, as many as one read(2) gives.
  std::unordered_map<pid_t, uint64_t> held;
  uint64_t all = 0;   // that were read: one that was told twice is counted twice
  bool whole = true;  // there were no more
};

// The first `most` locks of those in `path` (proc_locks(5)), at least. Each read(2) of it waits for
// milliseconds until no processor takes a lock, and goes through the list from its beginning to the
// place that it had reached: not for an I/O thread. A new lock comes first in the list, so while
// some process takes many, the locks behind that place are told again and again.
Result<FileLocks> readFileLocks(size_t most, const std::string& path = "/proc/locks");

// What the kernel has memory for just now, at least as many as are held; cheap. nullopt where it
// does not tell (Documentation/ABI/testing/sysfs-kernel-slab), or not this process.
std::optional<uint64_t> roomForFileLocks(
    const std::string& path = "/sys/kernel/slab/file_lock_cache/total_objects");

}  // namespace cloister::linux
