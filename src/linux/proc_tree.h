// SPDX-License-Identifier: Apache-2.0
// What a process and its descendants use, from /proc (proc(5)): for where no cgroup tells.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>

namespace cloister::linux {

// Bytes that a storage device was to give or take: what the page cache answers is not read, and
// what memory file systems hold is not written.
struct IoBytes {
  uint64_t read = 0;
  uint64_t written = 0;

  // The larger of each: one of two counts may leave out what the other has.
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

// Of one process and of the children that it has waited for (/proc/PID/io); nothing of one that is
// gone or that this process may not ask about.
IoBytes ioOf(pid_t process);

struct TreeUsage {
  uint64_t cpu_micros = 0;  // of those alive, and of the children they have waited for
  IoBytes io = {};          // likewise
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
