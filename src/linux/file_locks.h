// SPDX-License-Identifier: Apache-2.0
// The locks on files that processes hold. The locks take kernel memory and are charged to no
// cgroup.
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
  // Number of locks by the process that took the locks, as numbered by /proc; -1: of an open file
  // description. Each lock counts once, never more than exist. Equal-looking locks of several open
  // files may count fewer: as many as a single read(2) returns.
  std::unordered_map<pid_t, uint64_t> held;
  uint64_t all = 0;   // locks read; a repeated lock counts twice
  bool whole = true;  // there were no more
};

// At least the first `most` locks in `path` (proc_locks(5)). Each read(2) waits milliseconds until
// no processor takes a lock, and walks the list from its beginning to the current position: do not
// call on an I/O thread. New locks come first in the list, so while a process takes many locks,
// reads repeat locks behind the position.
Result<FileLocks> readFileLocks(size_t most, const std::string& path = "/proc/locks");

// The number of locks for which the kernel has memory allocated, at least the number held; cheap.
// nullopt if unknown (Documentation/ABI/testing/sysfs-kernel-slab) or not readable.
std::optional<uint64_t> roomForFileLocks(
    const std::string& path = "/sys/kernel/slab/file_lock_cache/total_objects");

}  // namespace cloister::linux
