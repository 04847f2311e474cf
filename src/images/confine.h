// SPDX-License-Identifier: Apache-2.0
// The confinement of a process of an import: what reads bytes that anybody may have made.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::images {

// The system call filter of the unpacking process, policies/seccomp/image.json; compiled ahead, for
// the process itself opens nothing.
Result<std::vector<sock_filter>> unpackingFilter();

// For good, of this process, which has one thread: no new privileges, limits, Landlock (writes
// only below `work`, reads only there and below `input`, "" for an input that is open already),
// namespaces without a network and `work` as the root where this account may have them, no
// capability but the reading of what others own, and the filter. `directory` is `work`, open.
Result<> confineUnpacking(const std::string& work, int directory, const std::string& input,
                          const std::vector<sock_filter>& filter);

// The same for a program of the distribution that is executed next: it reads the system's
// directories too and makes no network connection where namespaces are to be had.
Result<> confineProgram(const std::string& work);

}  // namespace cloister::images
