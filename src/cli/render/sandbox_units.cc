// SPDX-License-Identifier: Apache-2.0
#include "cli/render/sandbox_units.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr Unit kMemory[] = {{"MB", 1},           {"MiB", 1},          {"M", 1},
                            {"GB", 1024},        {"GiB", 1024},       {"G", 1024},
                            {"TB", 1024 * 1024}, {"TiB", 1024 * 1024}};
constexpr Unit kPercent[] = {{"%", 1}, {"", 1}};
constexpr Unit kSeconds[] = {{"s", 1},        {"sec", 1},       {"m", 60},       {"min", 60},
                             {"h", 3600},     {"hour", 3600},   {"hours", 3600}, {"d", 86'400},
                             {"day", 86'400}, {"days", 86'400}, {"w", 604'800}};

// A whole number of the first unit, from 1 on.
Result<int64_t> amount(std::string_view text, std::span<const Unit> units, std::string_view flag,
                       std::string_view example) {
  constexpr double kMost = 1e12;
  double number = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit(read.ptr, static_cast<size_t>(text.data() + text.size() - read.ptr));
  while (unit.starts_with(' '))
    unit.remove_prefix(1);
  if (read.ec == std::errc() && number > 0 && number < kMost) {
    for (const auto& [name, factor] : units) {
      if (unit != name) continue;
      const double whole = std::ceil(number * factor);
      if (whole >= 1 && whole < kMost) return static_cast<int64_t>(whole);
    }
  }
  return fail(Code::kInvalid, "--" + std::string(flag) + ": \"" + printable(text) +
                                  "\" is no amount; write it as " + std::string(example));
}

}  // namespace

Result<int64_t> parseMemoryMb(std::string_view text) {
  return amount(text, kMemory, "memory", "512MB or 2GB");
}

Result<int64_t> parsePercent(std::string_view text) {
  return amount(text, kPercent, "cpu", "50%");
}

Result<int64_t> parseSeconds(std::string_view text, std::string_view flag) {
  return amount(text, kSeconds, flag, "90s, 30min, 2h or 7d");
}

std::string shownMemory(int64_t mib) {
  constexpr int64_t kGiB = 1024;
  if (mib < kGiB) return std::to_string(mib) + "MB";
  char text[32];
  std::snprintf(text, sizeof text, "%.1fGB", static_cast<double>(mib) / kGiB);
  return text;
}

std::string shownSeconds(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3600;
  if (seconds < kMinute) return std::to_string(seconds) + "s";
  if (seconds < kHour) return std::to_string(seconds / kMinute) + "min";
  const int64_t minutes = seconds % kHour / kMinute;
  return std::to_string(seconds / kHour) + "h" +
         (minutes > 0 ? " " + std::to_string(minutes) + "min" : "");
}

}  // namespace cloister::cli
