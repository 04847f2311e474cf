// SPDX-License-Identifier: Apache-2.0
// UsageHistory: what a run used over its time. It keeps at most kMostPoints points: when there are
// more, every second point goes, and later points come half as often. No thread of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "model/outcome.h"

namespace cloister::model {

class UsageHistory {
 public:
  static constexpr size_t kMostPoints = 120;
  static constexpr int64_t kFirstDistanceMs = 1'000;

  // Keeps `usage` if it is at least the present distance after the last point.
  void add(const Usage& usage);
  [[nodiscard]] const std::vector<Usage>& points() const { return points_; }
  [[nodiscard]] bool empty() const { return points_.empty(); }

  // An array of points. Each point is an array: wall_ms, cpu_ms, max_rss_bytes, memory_bytes,
  // io_read_bytes, io_write_bytes, and processes or null.
  [[nodiscard]] base::json::array toJson() const;
  // nullopt if `array` is not of this form, or has too many points.
  static std::optional<UsageHistory> fromJson(const base::json::array& array);

 private:
  std::vector<Usage> points_;
  int64_t distance_ms_ = kFirstDistanceMs;
};

}  // namespace cloister::model
