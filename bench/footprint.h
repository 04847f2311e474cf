// SPDX-License-Identifier: Apache-2.0
// The use of a running server while nothing runs: the memory of its processes and of its ready
// sandboxes, from /proc and the cgroup file system of the host. As root, or as the server's user.
// One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::bench {

// A sandbox, found by its control group.
struct ReadySandbox {
  std::string group;    // directory of its memory controller, "" where there is no cgroup
  std::string program;  // the prestarted program, such as "python3.11"; "" if none
  double pss = 0;       // bytes: proportional set size of its processes (proc(5), smaps_rollup)
  double charge = 0;  // bytes charged to its group: memory.usage_in_bytes, or memory.current on v2
};

struct Footprint {
  double pss = 0;     // bytes, of the server's own processes and the interpreters it copies
  int processes = 0;  // the number of those processes
  std::vector<ReadySandbox> sandboxes;
};

// The use of the process `server` and all processes below. A process that ends meanwhile is left
// out.
Result<Footprint> footprint(pid_t server);

// The same once no sandbox comes or goes and some have `program` (the beginning of its name)
// started; kUnavailable after `patience_seconds`.
Result<Footprint> readyFootprint(pid_t server, const std::string& program, int patience_seconds);

// Waits until the server has finished its background work after a start: the digest of the image is
// verified half a minute later. kUnavailable after `patience_seconds`.
Result<> settle(pid_t server, int patience_seconds);

}  // namespace cloister::bench
