// SPDX-License-Identifier: Apache-2.0
// The confinement of an import's process, which reads bytes of any origin.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::images {

// The system call filter of the unpacking process, policies/seccomp/image.json; compiled ahead, for
// the process itself opens nothing.
Result<std::vector<sock_filter>> unpackingFilter();

// Confines this single-threaded process for good: no new privileges, limits, Landlock (writes only
// below `work`, reads only there and below `input`, "" for an input already open), namespaces
// without a network and `work` as the root if permitted to this account, no capability except to
// read other users' files, and the filter. `directory` is `work`, open.
Result<> confineUnpacking(const std::string& work, int directory, const std::string& input,
                          const std::vector<sock_filter>& filter);

// The same for a program of the distribution executed next: also reads the system's directories,
// and has no network if namespaces are permitted.
Result<> confineProgram(const std::string& work);

}  // namespace cloister::images
