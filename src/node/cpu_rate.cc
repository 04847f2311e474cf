// SPDX-License-Identifier: Apache-2.0
#include "node/cpu_rate.h"

#include <algorithm>

namespace cloister::node {

uint32_t CpuRate::tell(int64_t cpu_ms, base::Monotonic now) {
  while (looks_.size() > 1 && now - looks_[1].at >= kSpan)
    looks_.pop_front();
  uint32_t millis = 0;
  if (!looks_.empty() && now > looks_.front().at) {
    using Seconds = std::chrono::duration<double>;
    const double seconds = Seconds(now - looks_.front().at).count();
    const auto used = static_cast<double>(std::max<int64_t>(0, cpu_ms - looks_.front().cpu_ms));
    millis = static_cast<uint32_t>(std::min(used / seconds, double{UINT32_MAX}));
  }
  if (looks_.empty() || now - looks_.back().at >= kApart) looks_.push_back({now, cpu_ms});
  return millis;
}

}  // namespace cloister::node
