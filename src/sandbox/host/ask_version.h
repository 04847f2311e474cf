// SPDX-License-Identifier: Apache-2.0
// Asking a program of the host for its version, or the like.
#pragma once

#include <string>
#include <vector>

namespace cloister::runtime {

// What the program open at `program`, called `name`, writes when run with --version, up to a bound;
// "" where it does not within a few seconds. What one has said is kept (own_cache.h) for as long as
// its file stays what it is: to start one of these takes longer than a small run. Called while the
// process has one thread.
std::string askVersion(int program, const std::string& name);

// What the same writes when run with `command`; nothing of it is kept.
std::string askProgram(int program, const std::vector<std::string>& command);

}  // namespace cloister::runtime
