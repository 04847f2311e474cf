// SPDX-License-Identifier: Apache-2.0
// Our data files (languages, policies) as JSON values: the plain part of YAML 1.2 and no more, so
// that the strict readers of base/json.h serve both formats. Plain scalars become null, true, false
// or numbers if their form allows (core schema); quoted scalars are text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

inline constexpr size_t kMaxYamlBytes = size_t{64} << 10;

// Lines of a document's members: a path as in errors ("rules[0].why") → its line, from 1. Leaves
// out paths of more than 256 bytes.
using YamlLines = std::map<std::string, int, std::less<>>;
// The line of `path`, or of the nearest enclosing member; 0: unknown.
int lineOf(const YamlLines& lines, std::string_view path);

// Parses a document whose top is a map. Refuses more than kMaxYamlBytes, anchors, aliases and tags
// (which can expand or hide content), keys given twice or not text, a second document, and nesting
// deeper than 16. Errors begin with `name` and give the line. Fills `lines`, if any.
Result<base::json::object> parseYaml(std::string_view yaml, std::string_view name,
                                     YamlLines* lines = nullptr);

// Checks that yaml-cpp finds no second document. Its own LoadAll never ends on endless documents,
// such as a single comma (0.7).
Result<> requireOneDocument(std::string_view yaml);

// A list of text as a member; empty when absent. At most 256 items.
Result<std::vector<std::string>> textList(base::ObjectReader& reader, std::string_view name);
// A required, non-empty member.
Result<std::string> requiredText(base::ObjectReader& reader, std::string_view name);

}  // namespace cloister::model
