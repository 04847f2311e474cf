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
  std::unordered_map<pid_t, uint64_t> held;
  uint64_t all = 0;
  bool whole = true;  // there were no more
};

// The first `most` locks of those in `path` (proc_locks(5)), at least. Each read(2) of it waits for
// milliseconds until no processor takes a lock, and begins the list anew: not for an I/O thread.
Result<FileLocks> readFileLocks(size_t most, const std::string& path = "/proc/locks");

// What the kernel has memory for just now, at least as many as are held; cheap. nullopt where it
// does not tell (Documentation/ABI/testing/sysfs-kernel-slab), or not this process.
std::optional<uint64_t> roomForFileLocks(
    const std::string& path = "/sys/kernel/slab/file_lock_cache/total_objects");

}  // namespace cloister::linux
