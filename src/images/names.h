// SPDX-License-Identifier: Apache-2.0
// The names in an open directory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::images {

// Sorted, without . and ..; the descriptor may be O_PATH and stays as it is.
Result<std::vector<std::string>> namesIn(int directory);

}  // namespace cloister::images
