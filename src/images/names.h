// SPDX-License-Identifier: Apache-2.0
// The names in an open directory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::images {

// The names in a directory, sorted, without . and ..; the descriptor may be O_PATH, and stays
// unchanged.
Result<std::vector<std::string>> namesIn(int directory);

}  // namespace cloister::images
