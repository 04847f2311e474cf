// SPDX-License-Identifier: Apache-2.0
// Sets a member in somebody else's JSON file, with every other byte unchanged: order, layout,
// numbers, and the comments and trailing commas (JSONC) of editors.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::cli {

// The member `group`.`name` of the document.
struct Splice {
  std::string_view group;
  std::string_view name;
  // The value as JSON text; lines after the first are indented by the value's depth.
  std::string_view value;
};

// `text` with the member set: replaced if present, otherwise added first in its group, and a
// missing group is made. Blank text becomes a document of its own. kInvalid if `text` is no JSON
// object, nests deeper than 64, has either name twice, or has a group that is no object.
Result<std::string> spliceMember(std::string_view text, const Splice& splice);

// A JSON string.
std::string quotedJson(std::string_view text);

}  // namespace cloister::cli
