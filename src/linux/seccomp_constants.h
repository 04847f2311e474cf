// SPDX-License-Identifier: Apache-2.0
// Names of the constants that a system call policy may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cloister::linux {

// The value of "AF_UNIX", "TIOCGWINSZ" and so on.
std::optional<uint64_t> seccompConstant(std::string_view name);

// The number of "EPERM" and so on, for errors that a policy may return.
std::optional<int> errnoByName(std::string_view name);

}  // namespace cloister::linux
