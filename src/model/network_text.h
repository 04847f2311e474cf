// SPDX-License-Identifier: Apache-2.0
// A program's use of the network in words, as shown by the command line and by MCP. Safe to print.
#pragma once

#include <string>
#include <vector>

#include "model/network.h"

namespace cloister::model {

// A line for each refused destination with its remedy, for further ones, and for the hint. Empty
// where nothing was refused.
std::vector<std::string> networkLines(const NetworkUse& use);

}  // namespace cloister::model
