// SPDX-License-Identifier: Apache-2.0
// The runner: pid 1 of every sandbox. It starts programs, feeds and empties their pipes, reaps
// whatever is left over to it, and reads and writes the workspace, all on the word of the node on
// fd 3 (wire/runner.h), to whom it reports.
//
// One thread, one poll loop, no heap. It runs under the sandbox's own limits and seccomp filter as
// the program's own uid, so it must not be trusted by the node nor disturbed by the program: it is
// not dumpable, blocks every signal, and holds no secret. Memory that is not used is not touched.
#pragma once

#include <algorithm>

namespace cloister::runner {

// A program that was there before the runner, its child: its number is the only argument, and its
// pipes are these descriptors. It waits for the end of the first, its stdin being /dev/null; the
// others are its stdout and stderr. wire::kStartAdopted gives it a channel.
inline constexpr int kAdoptedGo = 5;
inline constexpr int kAdoptedOut = 6;
inline constexpr int kAdoptedErr = 7;
// The signal (of rt_sigqueueinfo(2), to pid 1) with which it, or one that was started at a FIFO
// (wire::kStartFifo), says that it has ended but for giving back its memory, which takes longer
// than most programs run; the value is its exit status, and how many files it had open. Anyone
// inside can say so for it, as anyone can kill it: both are the program's word in any case.
inline constexpr int kAdoptedDone = 62;
// That value. `open_files`: 0 where it is not known.
constexpr int adoptedEnd(int status, int open_files) {
  constexpr int kMostFiles = 0x7FFFFF;
  return std::min(open_files, kMostFiles) << 8 | (status & 0xFF);
}

// Runs until the node hangs up. Refuses to unless it is pid 1: it kills every process it can see.
// `adopted` is the argument, or nullptr; `writes` is where programs may change files (writes.h), or
// nullptr for wherever they can.
[[noreturn]] void run(const char* adopted, const char* writes);

}  // namespace cloister::runner
