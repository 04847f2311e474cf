// SPDX-License-Identifier: Apache-2.0
// The resource usage of a process and its descendants, from /proc (proc(5)), for machines without
// usable cgroups.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cloister::linux {

// Bytes read from or written to storage devices. Reads answered by the page cache and writes to
// memory file systems do not count.
struct IoBytes {
  uint64_t read = 0;
  uint64_t written = 0;

  // Keeps the maximum of each: either count may miss some traffic.
  void atLeast(const IoBytes& other) {
    read = std::max(read, other.read);
    written = std::max(written, other.written);
  }
  IoBytes& operator+=(const IoBytes& other) {
    read += other.read;
    written += other.written;
    return *this;
  }
};

// The traffic of a process and its reaped children (/proc/PID/io); zero for an ended process, or
// without permission.
IoBytes ioOf(pid_t process);

struct TreeUsage {
  uint64_t cpu_micros = 0;  // of living processes and their reaped children
  IoBytes io = {};          // of the same processes
  uint64_t rss_bytes = 0;   // pages shared between processes count for each
  uint32_t processes = 0;   // `root` included
};

// Walks from `root`, numbered as in this process's /proc. Leaves out processes that end meanwhile.
// Looks at 4096 processes at most.
TreeUsage usageOfTree(pid_t root);

// The processes of the tree, `root` first; at most `most`. Leaves out those that end meanwhile.
std::vector<pid_t> processesOf(pid_t root, size_t most);

// The parent by this process's /proc; -1 for an ended process. Orphans of a pid namespace become
// children of its first process.
pid_t parentOf(pid_t process);

}  // namespace cloister::linux
