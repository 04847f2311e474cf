// SPDX-License-Identifier: Apache-2.0
// A sandbox's share of a guest's kernel: the number of processors and the memory that its programs
// see. The kernel itself shows the whole machine. So files made from the kernel's own cover some
// files of /proc and /sys. No program can change the covers: they lie in read-only file systems in
// memory, without another name. On the host's kernel the node does the same (confine/mount_plan.h).
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
