// SPDX-License-Identifier: Apache-2.0
#include "model/pool_stats.h"

#include <algorithm>
#include <numeric>

namespace cloister::model {

void Durations::add(std::chrono::steady_clock::duration took) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  const auto* const bound = std::ranges::lower_bound(kBoundsMicros, micros);
  counts[static_cast<size_t>(bound - kBoundsMicros.begin())]++;
  sum_micros += static_cast<uint64_t>(micros);
}

uint64_t Durations::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace cloister::model
