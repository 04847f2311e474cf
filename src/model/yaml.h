// SPDX-License-Identifier: Apache-2.0
// Our data files (languages, policies) as JSON values: the plain part of YAML 1.2 and no more, so
// that the strict readers of base/json.h serve both. Plain scalars become null, true, false or
// numbers where they look like one (core schema); quoted ones are text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

inline constexpr size_t kMaxYamlBytes = size_t{64} << 10;

// Where the members of a document stand: a path as errors name it ("rules[0].why") → its line, from
// 1. Paths of more than 256 bytes are left out.
using YamlLines = std::map<std::string, int, std::less<>>;
// The line of `path`, or of what it is in; 0: not known.
int lineOf(const YamlLines& lines, std::string_view path);

// Parses one document whose top is a map. Refuses: more than kMaxYamlBytes, anchors, aliases and
// tags (they can blow up or hide what a file says), keys given twice or not text, a second
// document, nesting deeper than 16. Errors begin with `name` and give the line. Fills `lines`, if
// any.
Result<base::json::object> parseYaml(std::string_view yaml, std::string_view name,
                                     YamlLines* lines = nullptr);

// That yaml-cpp finds no second document. Its own LoadAll never ends where it finds them for ever,
// as in a comma alone (0.7).
Result<> requireOneDocument(std::string_view yaml);

// A list of text as a member; empty when absent. At most 256 items.
Result<std::vector<std::string>> textList(base::ObjectReader& reader, std::string_view name);
// A member that must be there and not empty.
Result<std::string> requiredText(base::ObjectReader& reader, std::string_view name);

}  // namespace cloister::model
