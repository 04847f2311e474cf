// SPDX-License-Identifier: Apache-2.0
// Removes a tree of hostile origin, of any depth.
#pragma once

#include <string>

#include "base/result.h"

namespace cloister::images {

// Removes `name` in the open directory with all content; links are not followed. A missing name is
// no error.
Result<> removeTree(int parent, const std::string& name);

}  // namespace cloister::images
