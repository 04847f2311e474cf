// SPDX-License-Identifier: Apache-2.0
#include "auth/attempts.h"

#include <algorithm>
#include <cmath>

namespace cloister::auth {
namespace {

constexpr int kHostBits = 64;
constexpr double kMinute = 60;

base::Address hostOf(const base::Address& peer) {
  return peer.isV4() ? peer : peer.masked(kHostBits);
}

}  // namespace

void Attempts::refill(Peer& peer, base::Monotonic now) const {
  const double seconds = std::chrono::duration<double>(now - peer.at).count();
  peer.left = std::min<double>(per_minute_, peer.left + seconds * per_minute_ / kMinute);
  peer.at = now;
}

int Attempts::waitSeconds(const base::Address& peer, base::Monotonic now) {
  const auto found = peers_.find(hostOf(peer));
  if (found == peers_.end()) return 0;
  refill(found->second, now);
  if (found->second.left >= 1) return 0;
  const double missing = 1 - found->second.left;
  return std::max(1, static_cast<int>(std::ceil(missing * kMinute / per_minute_)));
}

void Attempts::failed(const base::Address& peer, base::Monotonic now) {
  const base::Address host = hostOf(peer);
  auto found = peers_.find(host);
  if (found == peers_.end()) {
    if (peers_.size() >= kMaxPeers) {
      peers_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(host);
    found = peers_.emplace(host, Peer{double(per_minute_), now, std::prev(order_.end())}).first;
  }
  order_.splice(order_.end(), order_, found->second.seen);
  refill(found->second, now);
  found->second.left = std::max(0.0, found->second.left - 1);
}

}  // namespace cloister::auth
