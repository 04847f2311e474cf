// SPDX-License-Identifier: Apache-2.0
// Restricts file changes by programs of an agent that may not write everywhere. Each program enters
// a Landlock ruleset (landlock(7)) before its start, or runs as another user (other_user.h). The
// runner itself is not restricted, because the runner writes the files that the node sends.
#pragma once

#include <string_view>

namespace cloister::runner {

// From now on every program is held to it; "temporary": /tmp and /dev/shm, "none". False where the
// kernel cannot; then nothing may run.
bool limitWrites(const char* where);

// Takes the payload of kWritable, for programs started later. False if malformed.
bool setWritable(std::string_view payload);

// Before each program: makes missing files and directories of the list, and the rules for all
// existing ones. An entry that cannot be made, or is replaced by a program's link, stays closed.
// Returns errno. Does nothing if programs are not limited.
int prepareWriteLimits();

// Also permits writing beneath `dir` from now on: an interpreter's own directory. Returns errno.
int allowWritingBeneath(const char* dir);

// In a copy of this process that closes unneeded descriptors: moves its descriptor of the rules to
// `at`. Returns the first unneeded number.
unsigned keepWriteLimits(int at);

// In a program's process before execution; for good. Returns errno. Does nothing if programs are
// not limited.
int enterWriteLimits();

}  // namespace cloister::runner
