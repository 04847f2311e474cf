// SPDX-License-Identifier: Apache-2.0
// Ground: what pid 1 finds itself on. In a machine it has a kernel that has just started, and makes
// everything; in a container a runtime with a kernel of its own (gVisor) has made the first
// sandbox's file systems, and holds its limits.
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
