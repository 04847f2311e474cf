// SPDX-License-Identifier: Apache-2.0
// JSON for people: an indented outline, and tables. Text is made harmless for a terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace cloister::cli {

// "key: value" lines, two spaces per level; short lists in a single line.
std::string outline(const base::json::object& object);

// A column of a table.
struct Heading {
  std::string_view text;
  bool whole = false;  // cut off last, and never below the length of an id
};
// Columns as wide as their widest cell; the last is not padded, and an empty cell is "-". Cells of
// the widest columns are cut off (…) until the lines fit the screen, unless it is wide.
std::string table(std::span<const Heading> headings,
                  const std::vector<std::vector<std::string>>& rows);
// Lines "name  value", nothing cut off.
std::string pairs(const std::vector<std::pair<std::string, std::string>>& lines);

// "812 B", "1.5 MiB".
std::string humanBytes(uint64_t bytes);

// Prints a structured answer: JSON in one line, or YAML, as the screen says.
void printJson(const base::json::value& value);
// The same for an item of a stream: a line of JSON, or a document of YAML.
std::string streamed(const base::json::value& value);

}  // namespace cloister::cli
