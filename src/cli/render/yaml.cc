// SPDX-License-Identifier: Apache-2.0
#include "cli/render/yaml.h"

#include <algorithm>
#include <string_view>

namespace cloister::cli {
namespace {

namespace json = base::json;

bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Words that some reader of YAML takes for a boolean, null or a number.
bool isReserved(std::string_view text) {
  constexpr std::string_view kWords[] = {"true", "false", "yes",  "no",  "on", "off",
                                         "y",    "n",     "null", "nan", "inf"};
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return std::ranges::find(kWords, lower) != std::end(kWords);
}

// A plain scalar begins with a letter, and has only letters, digits and these signs.
bool isPlain(std::string_view text) {
  const auto fits = [](char c) {
    return isLetter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '/';
  };
  return !text.empty() && isLetter(text[0]) && std::ranges::all_of(text, fits) && !isReserved(text);
}

std::string scalar(const json::value& value) {
  const json::string* text = value.if_string();
  if (text != nullptr && isPlain(*text)) return std::string(*text);
  return base::toJson(value);  // a string of JSON is a double-quoted scalar of YAML
}

std::string keyOf(std::string_view key) {
  return isPlain(key) ? std::string(key) : base::toJson(json::value(key));
}

bool isBlock(const json::value& value) {
  return (value.is_object() && !value.get_object().empty()) ||
         (value.is_array() && !value.get_array().empty());
}

void add(const json::value& value, size_t depth, std::string& out);

// `lead` stands before the first member: an item of a list begins on the line of its dash.
void addObject(const json::object& object, size_t depth, std::string lead, std::string& out) {
  for (const auto& member : object) {
    out += lead + keyOf(member.key()) + ":";
    lead = std::string(depth, ' ');
    if (!isBlock(member.value())) {
      out += " " + scalar(member.value()) + "\n";
    } else {
      out += "\n";
      add(member.value(), depth + (member.value().is_object() ? 2 : 0), out);
    }
  }
}

void add(const json::value& value, size_t depth, std::string& out) {
  const std::string indent(depth, ' ');
  if (const json::object* object = value.if_object()) {
    addObject(*object, depth, indent, out);
    return;
  }
  for (const json::value& item : value.get_array()) {
    if (!isBlock(item)) {
      out += indent + "- " + scalar(item) + "\n";
    } else if (const json::object* object = item.if_object()) {
      addObject(*object, depth + 2, indent + "- ", out);
    } else {
      out += indent + "-\n";
      add(item, depth + 2, out);
    }
  }
}

}  // namespace

std::string toYaml(const json::value& value) {
  if (!isBlock(value)) return scalar(value) + "\n";
  std::string out;
  add(value, 0, out);
  return out;
}

}  // namespace cloister::cli
