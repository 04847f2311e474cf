// SPDX-License-Identifier: Apache-2.0
// What a running server takes while nothing runs: the memory of its processes and of the sandboxes
// that it keeps ready, from /proc and the cgroup file system of the host it runs on. As root, or as
// whoever started the server where it is no other user. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::bench {

// One sandbox, found by its control group.
struct ReadySandbox {
  std::string group;    // directory of its memory controller, "" where there is no cgroup
  std::string program;  // what was started ahead in it, such as "python3.11"; "" if nothing was
  double pss = 0;       // bytes: proportional set size of its processes (proc(5), smaps_rollup)
  double charge = 0;  // bytes charged to its group: memory.usage_in_bytes, or memory.current on v2
};

struct Footprint {
  double pss = 0;     // bytes, of the server's own processes and the interpreters it copies
  int processes = 0;  // that these are
  std::vector<ReadySandbox> sandboxes;
};

// Of the process `server` and all below it. A process that ends meanwhile is left out.
Result<Footprint> footprint(pid_t server);

// The same once no sandbox comes or goes and some have `program` (the beginning of its name)
// started; kUnavailable after `patience_seconds`.
Result<Footprint> readyFootprint(pid_t server, const std::string& program, int patience_seconds);

// Waits until the server has done what it does in the background after a start of its own: the
// image's digest is verified half a minute later. kUnavailable after `patience_seconds`.
Result<> settle(pid_t server, int patience_seconds);

}  // namespace cloister::bench
