// SPDX-License-Identifier: Apache-2.0
// JSON for people: an indented outline, and tables. Text is made harmless for a terminal.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace cloister::cli {

// "key: value" lines, two spaces per level; short lists in a single line.
std::string outline(const base::json::object& object);

// Columns as wide as their widest cell; the last is not padded. The first row is the heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "812 B", "1.5 MiB".
std::string humanBytes(uint64_t bytes);

// Prints JSON with a newline.
void printJson(const base::json::value& value);

}  // namespace cloister::cli
