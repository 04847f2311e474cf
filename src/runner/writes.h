// SPDX-License-Identifier: Apache-2.0
// Where programs may change files, when the agent that they are for may not everywhere: a Landlock
// ruleset (landlock(7)) that each of them enters before it begins. The runner itself does not: it
// brings the files that it is sent.
#pragma once

namespace cloister::runner {

// From now on every program is held to it; "temporary": /tmp and /dev/shm, "none". False where the
// kernel cannot; then nothing may run.
bool limitWrites(const char* where);

// But beneath `dir` they may, from now on: a kernel's own directory. Returns errno.
int allowWritingBeneath(const char* dir);

// In a copy of this process that closes what it does not keep: its hold on the rules becomes
// descriptor `at`. Returns the first that it does not need.
unsigned keepWriteLimits(int at);

// In a program's process, before it is executed; for good. Returns errno. Nothing where
// limitWrites() was not called.
int enterWriteLimits();

}  // namespace cloister::runner
