// SPDX-License-Identifier: Apache-2.0
// A sandbox's share of a guest's kernel: how many processors and how much memory its programs see.
// The kernel itself shows all that it has. So files of /proc and /sys are covered by others, made
// of the kernel's own, which nobody can change: they lie in file systems in memory that are
// read-only, and reached by no other name. On the host's kernel the node does the same
// (confine/mount_plan.h).
//
// For a process that may mount, in a mount namespace of its own, before any program runs.
#pragma once

#include <cstdint>

namespace cloister::runner {

// Covers, where they are, /proc/cpuinfo, /proc/stat and /sys/devices/system/cpu by those of the
// first `cpus` processors (0, or no fewer than this process may run on: leaves them), and
// /proc/meminfo by one of `memory` bytes, all free (0: leaves it). `root` goes before these paths;
// below it is a directory /workspace, which is covered meanwhile. False, with errno, if it cannot.
bool showShare(const char* root, unsigned cpus, uint64_t memory);

// sched_setaffinity(2): this process, and what it starts, runs on `count` of the processors that it
// may run on now, from the `first` on, in a circle; 0, or no fewer: on all. False, with errno, if
// it cannot.
bool useProcessors(unsigned count, unsigned first);

}  // namespace cloister::runner
