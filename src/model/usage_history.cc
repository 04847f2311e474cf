// SPDX-License-Identifier: Apache-2.0
#include "model/usage_history.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kColumns = 7;  // wall_ms, cpu_ms, max_rss, memory, read, written, processes

template <class T>
bool readNumber(const json::value& value, T& into) {
  json::error_code error;
  into = value.is_number() ? value.to_number<T>(error) : T{};
  return value.is_number() && !error;
}

std::optional<Usage> pointOf(const json::value& value) {
  const json::array* row = value.if_array();
  if (row == nullptr || row->size() != kColumns) return std::nullopt;
  Usage usage;
  uint32_t processes = 0;
  const bool counted = !row->at(6).is_null();
  const bool read =
      readNumber(row->at(0), usage.wall_ms) && readNumber(row->at(1), usage.cpu_ms) &&
      readNumber(row->at(2), usage.max_rss_bytes) && readNumber(row->at(3), usage.memory_bytes) &&
      readNumber(row->at(4), usage.io_read_bytes) && readNumber(row->at(5), usage.io_write_bytes) &&
      (!counted || readNumber(row->at(6), processes));
  if (!read) return std::nullopt;
  usage.processes = counted ? std::optional(processes) : std::nullopt;
  return usage;
}

}  // namespace

void UsageHistory::add(const Usage& usage) {
  const int64_t due = points_.empty() ? kFirstDistanceMs : points_.back().wall_ms + distance_ms_;
  if (usage.wall_ms < due) return;
  points_.push_back(usage);
  if (points_.size() <= kMostPoints) return;
  // The newest point stays.
  size_t kept = 0;
  for (size_t i = 0; i < points_.size(); i += 2)
    points_[kept++] = points_[i];
  points_.resize(kept);
  distance_ms_ *= 2;
}

json::array UsageHistory::toJson() const {
  json::array rows;
  for (const Usage& at : points_) {
    rows.push_back(json::array{at.wall_ms, at.cpu_ms, at.max_rss_bytes, at.memory_bytes,
                               at.io_read_bytes, at.io_write_bytes,
                               at.processes ? json::value(*at.processes) : json::value(nullptr)});
  }
  return rows;
}

std::optional<UsageHistory> UsageHistory::fromJson(const json::array& array) {
  if (array.size() > kMostPoints) return std::nullopt;
  UsageHistory history;
  for (const json::value& value : array) {
    std::optional<Usage> point = pointOf(value);
    if (!point) return std::nullopt;
    history.points_.push_back(*point);
  }
  return history;
}

}  // namespace cloister::model
