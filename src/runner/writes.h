// SPDX-License-Identifier: Apache-2.0
// Where programs may change files, when the agent that they are for may not everywhere: a Landlock
// ruleset (landlock(7)) that each of them enters before it begins, or another user that each of
// them becomes (other_user.h). The runner itself does not: it brings the files that it is sent.
#pragma once

#include <string_view>

namespace cloister::runner {

// From now on every program is held to it; "temporary": /tmp and /dev/shm, "none". False where the
// kernel cannot; then nothing may run.
bool limitWrites(const char* where);

// Takes the payload of kWritable, for programs that start from now on. False where it is malformed.
bool setWritable(std::string_view payload);

// Before each program: makes the files and directories of that list that are not there yet, and
// the rules for all that are. One that cannot be made, or where a program has put a link in the
// way, stays closed. Returns errno. Does nothing where programs are not limited.
int prepareWriteLimits();

// But beneath `dir` they may, from now on: a kernel's own directory. Returns errno.
int allowWritingBeneath(const char* dir);

// In a copy of this process that closes what it does not keep: its hold on the rules becomes
// descriptor `at`. Returns the first that it does not need.
unsigned keepWriteLimits(int at);

// In a program's process, before it is executed; for good. Returns errno. Nothing where programs
// are not limited.
int enterWriteLimits();

}  // namespace cloister::runner
