// SPDX-License-Identifier: Apache-2.0
#include "cli/render/outline.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/render/screen.h"
#include "cli/render/terminal.h"
#include "cli/render/yaml.h"

namespace cloister::cli {
namespace {

namespace json = base::json;

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
    if (!line.empty() && line.size() + text.size() + 2 * depth > screen().columns) {
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

// Code points, each of which takes a column of a terminal.
size_t lengthOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// At most `width` code points, the last of which is … if anything is missing.
std::string cut(const std::string& text, size_t width) {
  if (lengthOf(text) <= width) return text;
  size_t end = 0;
  for (size_t left = width; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && left-- == 1) break;
  }
  return text.substr(0, end) + "…";
}

using Cells = std::vector<std::vector<std::string>>;

std::vector<size_t> widthsOf(const Cells& cells) {
  std::vector<size_t> widths;
  for (const auto& row : cells) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], lengthOf(row[i]));
  }
  return widths;
}

constexpr size_t kGap = 2;

// Narrows the widest columns until all of them fit into `columns`. Whole columns come last, and
// keep what an id needs.
void fit(std::vector<size_t>& widths, const std::vector<bool>& whole, size_t columns) {
  constexpr size_t kLeast = 4;
  constexpr size_t kId = 40;
  size_t total = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (size_t i = 0; i < widths.size(); ++i)
    total += widths[i] = std::min(widths[i], whole[i] ? std::max(columns, kId) : columns);
  const auto widestOf = [&](bool wanted, size_t floor) {
    size_t* widest = nullptr;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (whole[i] == wanted && widths[i] > (widest == nullptr ? floor : *widest))
        widest = &widths[i];
    }
    return widest;
  };
  for (; total > columns; --total) {
    size_t* widest = widestOf(false, kLeast);
    if (widest == nullptr) widest = widestOf(true, kId);
    if (widest == nullptr) return;
    --*widest;
  }
}

std::string laidOut(const Cells& cells, const std::vector<size_t>& widths) {
  std::string out;
  for (const auto& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = cut(row[i], widths[i]);
      out += cell;
      if (i + 1 < row.size()) out.append(widths[i] + kGap - lengthOf(cell), ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace

std::string outline(const json::object& object) {
  std::string out;
  addObject(object, 0, out);
  return out;
}

std::string table(std::span<const Heading> headings,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> cells(1);
  std::vector<bool> whole;
  for (const Heading& heading : headings) {
    cells[0].emplace_back(heading.text);
    whole.push_back(heading.whole);
  }
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (const std::string& cell : row)
      line.push_back(cell.empty() ? "-" : printable(cell));
  }
  std::vector<size_t> widths = widthsOf(cells);
  if (!screen().wide) fit(widths, whole, screen().columns);
  return laidOut(cells, widths);
}

std::string pairs(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& [name, value] : lines)
    cells.push_back({name, printable(value)});
  return laidOut(cells, widthsOf(cells));
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
  writeTo(STDOUT_FILENO, screen().yaml ? toYaml(value) : base::toJson(value) + "\n");
}

std::string streamed(const json::value& value) {
  return screen().yaml ? "---\n" + toYaml(value) : base::toJson(value) + "\n";
}

}  // namespace cloister::cli
