// SPDX-License-Identifier: Apache-2.0
// The globs of rules: * stands for any characters, / too; everything else for itself. Pure.
#pragma once

#include <string_view>

namespace cloister::base {

bool globMatches(std::string_view glob, std::string_view text);

}  // namespace cloister::base
