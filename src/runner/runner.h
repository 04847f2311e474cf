// SPDX-License-Identifier: Apache-2.0
// The runner: pid 1 of every sandbox. The runner starts programs, feeds and empties their pipes,
// reaps orphaned processes, and reads and writes the workspace. The node on fd 3 (wire/runner.h)
// orders all of this and receives the reports.
//
// One thread, one poll loop, no heap. The runner runs under the sandbox's own limits and seccomp
// filter as the program's own uid. So the node must not trust the runner, and the program must not
// disturb the runner: the runner is not dumpable, blocks every signal, and holds no secret. Unused
// memory is not touched.
#pragma once

#include <algorithm>

namespace cloister::runner {

// A program started before the runner, as its child: its number is the only argument, and its pipes
// are these descriptors. The program waits for the end of the first, with /dev/null as stdin; the
// others are its stdout and stderr. wire::kStartAdopted gives the program a channel.
inline constexpr int kAdoptedGo = 5;
inline constexpr int kAdoptedOut = 6;
inline constexpr int kAdoptedErr = 7;
// The signal (by rt_sigqueueinfo(2) to pid 1) by which such a program, or a program started at a
// FIFO (wire::kStartFifo), reports its end before releasing its memory, which takes longer than
// most programs run. The value is its exit status and number of open files. Any process inside can
// send the signal, as any process can kill the program: either is the program's own word.
inline constexpr int kAdoptedDone = 62;
// The signal's value. `open_files`: 0 if unknown.
constexpr int adoptedEnd(int status, int open_files) {
  constexpr int kMostFiles = 0x7FFFFF;
  return std::min(open_files, kMostFiles) << 8 | (status & 0xFF);
}

// Runs until the node closes the socket. Refuses unless pid 1: the runner kills all visible
// processes. `adopted` is the argument, or nullptr; `writes`: paths where programs may change files
// (writes.h), or nullptr for no limit.
[[noreturn]] void run(const char* adopted, const char* writes);

}  // namespace cloister::runner
