// SPDX-License-Identifier: Apache-2.0
// The runner: pid 1 of every sandbox. It starts programs, feeds and empties their pipes, reaps
// whatever is left over to it, and reads and writes the workspace, all on the word of the node on
// fd 3 (wire/runner.h), to whom it reports.
//
// One thread, one poll loop, no heap. It runs under the sandbox's own limits and seccomp filter as
// the program's own uid, so it must not be trusted by the node nor disturbed by the program: it is
// not dumpable, blocks every signal, and holds no secret. Memory that is not used is not touched.
#pragma once

namespace cloister::runner {

// Runs until the node hangs up. Refuses to unless it is pid 1: it kills every process it can see.
[[noreturn]] void run();

}  // namespace cloister::runner
