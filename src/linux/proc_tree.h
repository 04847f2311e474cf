// SPDX-License-Identifier: Apache-2.0
// What a process and its descendants use, from /proc (proc(5)): for where no cgroup tells.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cloister::linux {

struct TreeUsage {
  uint64_t cpu_micros = 0;  // of those alive, and of the children they have waited for
  uint64_t rss_bytes = 0;   // pages shared between processes count for each
  uint32_t processes = 0;   // `root` included
};

// Walks from `root`, as this process's /proc numbers it. Processes that end meanwhile are left out;
// at most 4096 are looked at.
TreeUsage usageOfTree(pid_t root);

// As this process's /proc has it; -1 for one that is gone. What a pid namespace's processes leave
// behind is its first process's.
pid_t parentOf(pid_t process);

}  // namespace cloister::linux
