// SPDX-License-Identifier: Apache-2.0
#include "cli/render/amounts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr double kGiB = 1024;
constexpr double kTiB = 1024 * kGiB;
// In MiB. A bare number is MiB.
constexpr Unit kMemory[] = {{"", 1},        {"MB", 1},        {"MiB", 1},        {"Mi", 1},
                            {"M", 1},       {"GB", kGiB},     {"GiB", kGiB},     {"Gi", kGiB},
                            {"G", kGiB},    {"TB", kTiB},     {"TiB", kTiB},     {"Ti", kTiB},
                            {"T", kTiB},    {"KB", 1 / kGiB}, {"KiB", 1 / kGiB}, {"Ki", 1 / kGiB},
                            {"K", 1 / kGiB}};
constexpr Unit kPercent[] = {{"%", 1}, {"", 1}};
// In thousandths of a core. A bare number is thousandths, unless it has a decimal point.
constexpr Unit kCpu[] = {{"", 1}, {"m", 1}, {"core", 1000}, {"cores", 1000}, {"%", 10}};
// In seconds. A bare number is seconds.
constexpr Unit kSeconds[] = {
    {"", 1},           {"ms", 0.001},     {"s", 1},        {"sec", 1},       {"secs", 1},
    {"second", 1},     {"seconds", 1},    {"m", 60},       {"min", 60},      {"mins", 60},
    {"minute", 60},    {"minutes", 60},   {"h", 3600},     {"hr", 3600},     {"hour", 3600},
    {"hours", 3600},   {"d", 86'400},     {"day", 86'400}, {"days", 86'400}, {"w", 604'800},
    {"week", 604'800}, {"weeks", 604'800}};

constexpr double kMost = 1e12;

// A table of units, and how an amount is written with them.
struct Measure {
  std::span<const Unit> units;
  std::string_view example;
};
constexpr Measure kSizes = {kMemory, "512MB or 2g"};
constexpr Measure kShares = {kPercent, "50%"};
constexpr Measure kCores = {kCpu, "800m or 0.8"};
constexpr Measure kTimes = {kSeconds, "90s, 30m, 2h or 7d"};

std::unexpected<Error> noAmount(std::string_view text, std::string_view flag,
                                const Measure& measure) {
  const std::string name = "--" + std::string(flag);
  return fail(Code::kInvalid,
              name + ": \"" + printable(text) + "\" is no amount; write it as " +
                  std::string(measure.example),
              name);
}

bool isSame(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : int{c}; };
  return one.size() == other.size() &&
         std::equal(one.begin(), one.end(), other.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

struct Amount {
  double value = 0;   // in the first unit of the table
  bool bare = false;  // without a unit
};

// A number and its unit at the beginning of `text`, which is shortened by both; nullopt for none.
std::optional<Amount> takeAmount(std::string_view& text, const Measure& measure) {
  double number = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const bool usable = read.ec == std::errc() && number >= 0 && number < kMost;  // nan is neither
  if (!usable) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  std::string_view unit = text.substr(0, text.find_first_of("0123456789."));
  text.remove_prefix(unit.size());
  while (unit.starts_with(' '))
    unit.remove_prefix(1);
  while (unit.ends_with(' '))
    unit.remove_suffix(1);
  for (const auto& [name, factor] : measure.units) {
    if (isSame(unit, name)) return Amount{number * factor, unit.empty()};
  }
  return std::nullopt;
}

Result<double> amount(std::string_view text, std::string_view flag, const Measure& measure) {
  std::string_view left = text;
  const auto one = takeAmount(left, measure);
  if (one && left.empty() && one->value > 0 && one->value < kMost) return one->value;
  return noAmount(text, flag, measure);
}

int64_t whole(double value) {
  return static_cast<int64_t>(std::ceil(value));
}

}  // namespace

Result<int64_t> parseMemoryMb(std::string_view text, std::string_view flag) {
  return whole(TRY(amount(text, flag, kSizes)));
}

Result<int64_t> parsePercent(std::string_view text, std::string_view flag) {
  return whole(TRY(amount(text, flag, kShares)));
}

Result<int64_t> parseCpuMillis(std::string_view text, std::string_view flag) {
  constexpr double kCore = 1000;
  const bool decimal = text.find_first_not_of("0123456789.") == std::string_view::npos &&
                       text.find('.') != std::string_view::npos;
  const double value = TRY(amount(text, flag, kCores));
  return whole(decimal ? value * kCore : value);
}

Result<double> parseDuration(std::string_view text, std::string_view flag) {
  double seconds = 0;
  std::string_view left = text;
  do {
    const bool first = left.size() == text.size();
    const auto part = takeAmount(left, kTimes);
    const bool alone = first && left.empty();  // as a number without a unit must be
    if (!part || (part->bare && !alone)) return noAmount(text, flag, kTimes);
    seconds += part->value;
  } while (!left.empty());
  if (seconds < kMost) return seconds;
  return noAmount(text, flag, kTimes);
}

Result<int64_t> parseSeconds(std::string_view text, std::string_view flag) {
  return whole(TRY(parseDuration(text, flag)));
}

Result<std::optional<int64_t>> memoryFlag(const base::Flags& flags, std::string_view flag) {
  const auto text = flags.text(flag);
  if (!text) return std::nullopt;
  return TRY(parseMemoryMb(*text, flag));
}

Result<std::optional<double>> durationFlag(const base::Flags& flags, std::string_view flag) {
  const auto text = flags.text(flag);
  if (!text) return std::nullopt;
  return TRY(parseDuration(*text, flag));
}

Result<std::optional<int64_t>> secondsFlag(const base::Flags& flags, std::string_view flag) {
  const auto text = flags.text(flag);
  if (!text) return std::nullopt;
  return TRY(parseSeconds(*text, flag));
}

std::string shownMemory(int64_t mib) {
  constexpr int64_t kMany = 1024;
  if (mib < kMany) return std::to_string(mib) + "MB";
  char text[32];
  std::snprintf(text, sizeof text, "%.1fGB", static_cast<double>(mib) / kMany);
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

std::string shortSeconds(int64_t seconds) {
  constexpr std::pair<char, int64_t> kUnits[] = {{'d', 86'400}, {'h', 3600}, {'m', 60}};
  for (const auto& [letter, length] : kUnits) {
    if (seconds >= 2 * length) return std::to_string(seconds / length) + letter;
  }
  return std::to_string(std::max<int64_t>(seconds, 0)) + "s";
}

}  // namespace cloister::cli
