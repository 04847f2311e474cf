// SPDX-License-Identifier: Apache-2.0
#include "model/limits.h"

#include <algorithm>

namespace cloister::model {
namespace {

template <auto member>
uint64_t limitValue(const Limits& limits) {
  if constexpr (requires { (limits.*member).count(); }) {
    return static_cast<uint64_t>((limits.*member).count());
  } else {
    return limits.*member;
  }
}

template <auto member>
void setLimit(Limits& limits, uint64_t value) {
  using Value = std::remove_reference_t<decltype(limits.*member)>;
  limits.*member = static_cast<Value>(value);
}

template <auto member>
constexpr LimitKind kindOf(std::string_view name, std::string_view unit) {
  return {name, unit, limitValue<member>, setLimit<member>};
}

constexpr std::array<LimitKind, kLimitCount> kLimitKinds = {
    kindOf<&Limits::wall>(limit_name::kWall, "ms"),
    kindOf<&Limits::cpu_time>(limit_name::kCpuTime, "ms"),
    kindOf<&Limits::cpu_millis>(limit_name::kCpuMillis, "thousandths of a core"),
    kindOf<&Limits::memory_bytes>(limit_name::kMemory, "bytes"),
    kindOf<&Limits::disk_bytes>(limit_name::kDisk, "bytes"),
    kindOf<&Limits::inodes>(limit_name::kInodes, "files"),
    kindOf<&Limits::file_bytes>(limit_name::kFileSize, "bytes"),
    kindOf<&Limits::open_files>(limit_name::kOpenFiles, "files"),
    kindOf<&Limits::pids>(limit_name::kPids, "processes"),
    kindOf<&Limits::output_bytes>(limit_name::kOutput, "bytes"),
};

}  // namespace

const std::array<LimitKind, kLimitCount>& limitKinds() {
  return kLimitKinds;
}

size_t limitIndex(std::string_view name) {
  const auto* found = std::ranges::find(kLimitKinds, name, &LimitKind::name);
  return static_cast<size_t>(found - kLimitKinds.begin());
}

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

Limits usualLimits(const Limits& limits) {
  Limits derived = limits;
  derived.cpu_time = {};
  settle(derived);
  Limits usual;
  usual.cpu_time = derived.cpu_time;
  return usual;
}

base::json::object toJsonObject(const Limits& limits) {
  return describedJson(limits);
}

}  // namespace cloister::model
