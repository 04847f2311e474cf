// SPDX-License-Identifier: Apache-2.0
// The pool's reactions to the beginning and the end of a shortage on the machine.
#include <utility>

#include "base/clock.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {
namespace {

// Interval of checks while sandboxes are ready or wanted, and while the machine is short of
// resources. The latter is the minimum.
constexpr auto kWatch = std::chrono::seconds(1);
constexpr auto kWatchShort = std::chrono::milliseconds(100);

}  // namespace

// The reason not to make more sandboxes ahead.
model::PoolStats::Held Pool::held() {
  using enum model::PoolStats::Held;
  const auto now = base::monotonicNow();
  if (now < look_again_) return counts_.held;
  look_again_ = now + kWatchShort;
  counts_.held = pressure_.memoryShort() ? kMemory : pressure_.cpuShort() ? kCpu : kNo;
  return counts_.held;
}

bool Pool::heldBack() {
  kept_back_ = lacksAny() && held() != model::PoolStats::Held::kNo;
  return kept_back_;
}

// Whether a shortage of the machine prevents or removes ready sandboxes.
bool Pool::hampered() const {
  return kept_back_ || counts_.held == model::PoolStats::Held::kMemory;
}

void Pool::watch() {
  if (std::exchange(watching_, true)) return;
  watch_.expires_after(hampered() ? kWatchShort : kWatch);
  watch_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->watching_ = false;
    self->look();
  });
}

void Pool::look() {
  const auto by = held();
  if (by == model::PoolStats::Held::kMemory) {
    if (Kind* least = leastUsed()) {
      giveUpOldest(*least);
      counts_.drained++;
    }
    if (ready() == 0) forgetTemplates();
  }
  const bool more = owes();
  if (!more) kept_back_ = false;
  if (more && by == model::PoolStats::Held::kNo) refill();
  if (more || ready() > 0) return watch();
  counts_.held = model::PoolStats::Held::kNo;  // from nothing
  look_again_ = {};
}

}  // namespace cloister::runtime
