// SPDX-License-Identifier: Apache-2.0
// Shortens a seccomp filter without changing its answers: neighbouring system call numbers with the
// same answer become one range, and a binary search finds the range. The kernel translates and
// compiles a filter anew for every sandbox, so every start pays for the filter's length.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace cloister::linux {

// `filter`: as made by libseccomp, which examines architecture and number first, then arguments of
// some numbers. Any other filter is returned unchanged.
std::vector<sock_filter> dispatchByRange(const std::vector<sock_filter>& filter,
                                         uint32_t architecture);

}  // namespace cloister::linux
