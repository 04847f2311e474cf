// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <atomic>
#include <cstdio>
#include <ctime>

#include "base/record_clock.h"

namespace cloister::base {
namespace {

std::atomic<int64_t> wall_offset{0};  // microseconds

}  // namespace

int64_t wallMicros() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Micros>(now).count() + wall_offset.load();
}

void setWallOffset(Micros offset) {
  wall_offset = offset.count();
}

std::string formatTime(int64_t wall_micros) {
  if (wall_micros == 0) return {};
  const time_t seconds = wall_micros / 1'000'000;
  struct tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[40];
  const size_t n = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(wall_micros / 1000 % 1000));
  return text;
}

namespace {

// Takes `digits` digits off the front of `text`; -1 if absent.
int number(std::string_view& text, size_t digits) {
  int value = 0;
  if (text.size() < digits) return -1;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || !any_of.contains(text.front())) return false;
  text.remove_prefix(1);
  return true;
}

// A fraction of a second, in microseconds; digits after the sixth do not count. -1: no digits.
int fraction(std::string_view& text) {
  if (!take(text, ".")) return 0;
  int micros = 0;
  int weight = 100'000;
  const size_t before = text.size();
  for (int digit = number(text, 1); digit >= 0; digit = number(text, 1), weight /= 10)
    micros += digit * weight;
  return text.size() == before ? -1 : micros;
}

// "Z" or ±hh:mm, as seconds to take off.
std::optional<int> offset(std::string_view& text) {
  if (take(text, "Zz")) return 0;
  const bool behind = text.starts_with('-');
  if (!take(text, "+-")) return std::nullopt;
  const int hours = number(text, 2);
  if (!take(text, ":")) return std::nullopt;
  const int minutes = number(text, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return std::nullopt;
  return (behind ? -1 : 1) * (hours * 3600 + minutes * 60);
}

bool isDay(const std::tm& utc) {
  std::tm normal = utc;
  ::timegm(&normal);
  return utc.tm_year >= 70 && normal.tm_mon == utc.tm_mon && normal.tm_mday == utc.tm_mday;
}

}  // namespace

std::optional<int64_t> parseTime(std::string_view text) {
  std::tm utc{};
  utc.tm_year = number(text, 4) - 1900;
  if (!take(text, "-")) return std::nullopt;
  utc.tm_mon = number(text, 2) - 1;
  if (!take(text, "-")) return std::nullopt;
  utc.tm_mday = number(text, 2);
  if (!isDay(utc)) return std::nullopt;
  if (text.empty()) return ::timegm(&utc) * int64_t{1'000'000};
  if (!take(text, "Tt ")) return std::nullopt;
  utc.tm_hour = number(text, 2);
  if (!take(text, ":")) return std::nullopt;
  utc.tm_min = number(text, 2);
  if (!take(text, ":")) return std::nullopt;
  utc.tm_sec = number(text, 2);
  const auto within = [](int value, int most) { return value >= 0 && value <= most; };
  if (!within(utc.tm_hour, 23) || !within(utc.tm_min, 59) || !within(utc.tm_sec, 60)) {
    return std::nullopt;
  }
  const int micros = fraction(text);
  const auto behind = offset(text);
  if (micros < 0 || !behind || !text.empty()) return std::nullopt;
  return (::timegm(&utc) - *behind) * int64_t{1'000'000} + micros;
}

}  // namespace cloister::base
