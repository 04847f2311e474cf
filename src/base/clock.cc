// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <cstdio>
#include <ctime>

namespace cloister::base {

int64_t wallMicros() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch())
      .count();
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

}  // namespace cloister::base
