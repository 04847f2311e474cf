// SPDX-License-Identifier: Apache-2.0
#include "cli/render/outline.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

namespace json = base::json;

constexpr size_t kWide = 100;

std::string scalar(const json::value& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? printable(std::string_view(value.get_string()))
                           : json::serialize(value);
}

bool isScalar(const json::value& value) {
  return !value.is_structured();
}

void addLine(std::string& out, size_t depth, std::string_view text) {
  out.append(2 * depth, ' ').append(text).append("\n");
}

// Words separated by commas, in lines that fit a screen.
void addWords(const json::array& words, size_t depth, std::string& out) {
  std::string line;
  for (const json::value& word : words) {
    const std::string text = scalar(word);
    if (!line.empty() && line.size() + text.size() + 2 * depth > kWide) {
      addLine(out, depth, line + ",");
      line.clear();
    }
    line.append(line.empty() ? "" : ", ").append(text);
  }
  if (!line.empty()) addLine(out, depth, line);
}

void addObject(const json::object& object, size_t depth, std::string& out);

void addArray(const json::array& array, size_t depth, std::string& out) {
  if (std::ranges::all_of(array, isScalar)) {
    addWords(array, depth, out);
    return;
  }
  for (const json::value& item : array) {
    const size_t start = out.size();
    if (item.is_object()) {
      addObject(item.get_object(), depth + 1, out);
    } else if (item.is_array()) {
      addArray(item.get_array(), depth + 1, out);
    } else {
      addLine(out, depth + 1, scalar(item));
    }
    if (out.size() > start) out[start + 2 * depth] = '-';  // marks where an item begins
  }
}

void addMember(const json::key_value_pair& member, size_t depth, std::string& out) {
  const std::string key = printable(std::string_view(member.key()));
  const json::value& value = member.value();
  if (isScalar(value)) {
    addLine(out, depth, key + ": " + scalar(value));
  } else if (value.is_object() ? value.get_object().empty() : value.get_array().empty()) {
    addLine(out, depth, key + ": none");
  } else {
    addLine(out, depth, key + ":");
    if (value.is_object()) {
      addObject(value.get_object(), depth + 1, out);
    } else {
      addArray(value.get_array(), depth + 1, out);
    }
  }
}

void addObject(const json::object& object, size_t depth, std::string& out) {
  for (const auto& member : object)
    addMember(member, depth, out);
}

}  // namespace

std::string outline(const json::object& object) {
  std::string out;
  addObject(object, 0, out);
  return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = printable(row[i]);
      if (i + 1 < row.size()) cell.resize(widths[i] + 2, ' ');
      out += cell;
    }
    out += '\n';
  }
  return out;
}

std::string humanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

void printJson(const json::value& value) {
  writeTo(STDOUT_FILENO, base::toJson(value) + "\n");
}

}  // namespace cloister::cli
