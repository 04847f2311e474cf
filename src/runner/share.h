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

// Covers, if present, /proc/cpuinfo, /proc/stat and /sys/devices/system/cpu by the values of the
// first `cpus` processors (0, or at least as many as this process may use: unchanged), and
// /proc/meminfo by `memory` bytes, all free (0: unchanged). `root` precedes the paths; a directory
// /workspace below `root` is covered meanwhile. False, with errno, on failure.
bool showShare(const char* root, unsigned cpus, uint64_t memory);

// sched_setaffinity(2): this process and its children run on `count` of the processors now allowed,
// starting at number `first` and wrapping around; 0, or at least as many: all. False, with errno,
// on failure.
bool useProcessors(unsigned count, unsigned first);

}  // namespace cloister::runner
