// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cloister::base {

// The project's version, "0.1.0".
std::string_view version();

}  // namespace cloister::base
