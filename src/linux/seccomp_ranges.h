// SPDX-License-Identifier: Apache-2.0
// Shortens a seccomp filter without changing what it answers: system calls with neighbouring
// numbers and one answer become one range, and a binary search finds the range. The kernel
// translates and compiles a filter anew for every sandbox, so its length is paid for by every
// start.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace cloister::linux {

// `filter` as libseccomp makes them: it looks at the architecture and the number first, then for
// some numbers at arguments. One that does anything else is returned as it is.
std::vector<sock_filter> dispatchByRange(const std::vector<sock_filter>& filter,
                                         uint32_t architecture);

}  // namespace cloister::linux
