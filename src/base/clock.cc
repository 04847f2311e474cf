// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <cstdio>
#include <ctime>

namespace cloister::base {

int64_t wallMicros() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The two clocks are not read at the same moment: of a few attempts, the one with the least
// between.
int64_t wallAt(Monotonic when) {
  constexpr int kAttempts = 4;
  int64_t wall = 0;
  auto least = Monotonic::duration::max();
  for (int i = 0; i < kAttempts; ++i) {
    const Monotonic before = monotonicNow();
    const int64_t now = wallMicros();
    const Monotonic after = monotonicNow();
    if (after - before >= least) continue;
    least = after - before;
    wall = now + std::chrono::duration_cast<Micros>(when - (before + least / 2)).count();
  }
  return wall;
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
