// SPDX-License-Identifier: Apache-2.0
// The runner's own program, for a session's files: see wire/files.h for what it is asked.
#pragma once

namespace cloister::runner {

// Serves one request and returns the exit code. Runs in a process of its own, forked from the
// runner, with a program's standard streams; `workspace` is the directory.
int serveFiles(int workspace, char** argv);

}  // namespace cloister::runner
