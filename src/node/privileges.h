// SPDX-License-Identifier: Apache-2.0
// Gives up privileges of a node and of all its later child processes, before the node starts the
// first child.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cloister::node {

// The capabilities that a node as root keeps, as bits 1 << CAP_*.
uint32_t keptCapabilities();

// Drops all other capabilities for good, sets no_new_privs, and installs the system call filter of
// the document at `filter`. An ordinary user has no capability to drop. Children inherit all three.
// A user namespace made later has all capabilities over itself. A failure must end the process. The
// caller has a single thread.
Result<> dropPrivileges(const std::string& filter);

}  // namespace cloister::node
