// SPDX-License-Identifier: Apache-2.0
// One member put into a JSON file of somebody else's, with every other byte of it left as it was:
// order, layout, numbers, and the comments and trailing commas (JSONC) that editors allow.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::cli {

// A member of an object that is itself a member of the document: `group`.`name`.
struct Splice {
  std::string_view group;
  std::string_view name;
  // The value as JSON text; its lines after the first are indented by the depth they come to.
  std::string_view value;
};

// `text` with the member set: replaced if it was there, otherwise the first of its group, which is
// made when missing. Blank text becomes a document of its own. kInvalid when `text` is no JSON
// object, nests deeper than 64, has one of the two names twice, or a group that is no object.
Result<std::string> spliceMember(std::string_view text, const Splice& splice);

// A JSON string.
std::string quotedJson(std::string_view text);

}  // namespace cloister::cli
