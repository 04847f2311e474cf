// SPDX-License-Identifier: Apache-2.0
#include "runner/glob.h"

namespace cloister::runner {
namespace {

// The result of matching a pattern element: the offset past the element, and whether the element
// matched.
struct Element {
  size_t next = 0;
  bool matched = false;
};

// `[…]` at pattern[at]; an unclosed bracket is a literal '['.
Element matchBracket(std::string_view pattern, size_t at, char c) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  const size_t first = i;
  bool found = false;
  while (i < pattern.size() && (pattern[i] != ']' || i == first)) {
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    const auto value = static_cast<unsigned char>(c);
    if (low <= value && value <= high) found = true;
    ++i;
  }
  if (i >= pattern.size()) return {at + 1, c == '['};
  return {i + 1, found != negated};
}

Element matchOne(std::string_view pattern, size_t at, char c) {
  switch (pattern[at]) {
    case '?':
      return {at + 1, true};
    case '[':
      return matchBracket(pattern, at, c);
    case '\\':
      if (at + 1 < pattern.size()) return {at + 2, pattern[at + 1] == c};
      return {at + 1, c == '\\'};
    default:
      return {at + 1, pattern[at] == c};
  }
}

// Matches a component. Only the last `*` needs a retry: its matches include those of earlier ones.
bool matchComponent(std::string_view pattern, std::string_view text) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0;
  size_t t = 0;
  size_t star = kNone;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    const Element element = p < pattern.size() ? matchOne(pattern, p, text[t]) : Element{};
    if (element.matched) {
      p = element.next;
      ++t;
    } else if (star != kNone) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

// Splits off the first component; `rest` is empty after the last.
std::string_view takeComponent(std::string_view& rest) {
  const size_t slash = rest.find('/');
  const std::string_view component = rest.substr(0, slash);
  rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
  return component;
}

}  // namespace

bool globMatch(std::string_view pattern, std::string_view path) {
  bool deep = false;  // after a `**`, which can match another component
  std::string_view deep_pattern;
  std::string_view deep_path;
  while (!path.empty()) {
    std::string_view pattern_rest = pattern;
    std::string_view path_rest = path;
    const std::string_view component = takeComponent(pattern_rest);
    if (component == "**") {
      if (pattern_rest.empty()) return true;
      deep = true;
      deep_pattern = pattern = pattern_rest;
      deep_path = path;
      continue;
    }
    if (!pattern.empty() && matchComponent(component, takeComponent(path_rest))) {
      pattern = pattern_rest;
      path = path_rest;
      if (!path.empty() || pattern.empty()) continue;
    }
    if (!deep) return false;
    takeComponent(deep_path);
    pattern = deep_pattern;
    path = deep_path;
    if (path.empty()) return false;
  }
  return pattern.empty();
}

}  // namespace cloister::runner
