// SPDX-License-Identifier: Apache-2.0
// Which files a program makes, changes or removes, as far as its words tell. The rows are in
// policies/programs.yaml (tables.h). Redirections and scripts (sed, awk, find, git) are
// effects.h's. Pure; thread-safe.
#pragma once

#include "policy/command/effects.h"

namespace cloister::policy {

// A file not named by the words is an unknown Value without text. A change of the machine's own
// settings (date -s, hostname NAME) counts as a file of /proc/sys.
std::vector<Value> writesOf(const Execution& execution);

}  // namespace cloister::policy
