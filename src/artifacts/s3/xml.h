// SPDX-License-Identifier: Apache-2.0
// The little of XML that answers of S3 need: elements by their local names, without attributes. The
// text is hostile, and bounded by the reader of the answer. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cloister::artifacts::xml {

// The content of each outermost element `name`, as written.
std::vector<std::string_view> elements(std::string_view text, std::string_view name);
// The text of the first element `name`, with the five predefined entities and character references
// decoded; "" if there is none.
std::string textOf(std::string_view text, std::string_view name);
std::string escaped(std::string_view text);

}  // namespace cloister::artifacts::xml
