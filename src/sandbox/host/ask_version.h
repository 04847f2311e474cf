// SPDX-License-Identifier: Apache-2.0
// Asks a program of the host for its version or similar facts.
#pragma once

#include <string>
#include <vector>

namespace cloister::runtime {

// The bounded output of the program open at `program`, called `name`, with --version; "" on timeout
// after a few seconds. The answer is cached (own_cache.h) as long as the file is unchanged:
// starting such a program takes longer than a small run. Call while the process has a single
// thread.
std::string askVersion(int program, const std::string& name);

// The output of the program when run with `command`, without caching.
std::string askProgram(int program, const std::vector<std::string>& command);

}  // namespace cloister::runtime
