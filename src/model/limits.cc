// SPDX-License-Identifier: Apache-2.0
#include "model/limits.h"

#include <algorithm>

namespace cloister::model {

uint64_t scratchBytes(const Limits& limits) {
  return std::min(limits.disk_bytes, limits.memory_bytes / 4 * 3);
}

bool needsDisk(const Limits& limits, uint64_t over_bytes) {
  return limits.disk_bytes > over_bytes && limits.disk_bytes > limits.memory_bytes / 4 * 3;
}

void settle(Limits& limits) {
  if (limits.cpu_time.count() > 0) return;
  const int64_t cores = (int64_t{limits.cpu_millis} + 999) / 1000;
  limits.cpu_time = (limits.wall + std::chrono::seconds(1)) * cores;
}

base::json::object toJsonObject(const Limits& limits) {
  return {{"wall_ms", limits.wall.count()},
          {"cpu_ms", limits.cpu_time.count()},
          {"cpu_millis", limits.cpu_millis},
          {"memory_bytes", limits.memory_bytes},
          {"disk_bytes", limits.disk_bytes},
          {"inodes", limits.inodes},
          {"file_bytes", limits.file_bytes},
          {"open_files", limits.open_files},
          {"pids", limits.pids},
          {"output_bytes", limits.output_bytes}};
}

}  // namespace cloister::model
