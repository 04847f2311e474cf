// SPDX-License-Identifier: Apache-2.0
// Ground: the environment in which pid 1 starts. In a machine the kernel has just started, and pid
// 1 makes everything. In a container a runtime with a kernel of its own (gVisor) has made the first
// sandbox's file systems, and enforces the sandbox's limits.
#pragma once

namespace cloister::guest {

struct Ground {
  const char* root;    // where pid 1 sees the sandboxes' root file system
  const char* runner;  // path of the runner's program for pid 1; the next likewise
  const char* filter;  // the node's system call filter
  bool machine;        // control groups, devices and file systems are ours to make
};

extern const Ground kMachine;
extern const Ground kContainer;

}  // namespace cloister::guest
