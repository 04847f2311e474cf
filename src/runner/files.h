// SPDX-License-Identifier: Apache-2.0
// The runner's built-in program for a session's files; wire/files.h has the requests.
#pragma once

#include <cstdint>

namespace cloister::runner {

// Serves one request and returns the exit code. Runs in a process of its own, forked from the
// runner, with a program's standard streams; `workspace` is the directory.
int serveFiles(int workspace, char** argv);

// Removes the named entry in a directory with its content: at most `depth` directories deep and
// `most` names, which is reduced. Returns errno; EBUSY for more names.
int removeTree(int parent, const char* name, uint32_t depth, uint32_t& most);

}  // namespace cloister::runner
