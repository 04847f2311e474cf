// SPDX-License-Identifier: Apache-2.0
// Attempts: the number of wrong credentials that a peer may still offer. Each peer has a bucket,
// refilled evenly. A peer is an IPv4 address, or a /64 of IPv6, because one host can have a whole
// /64. When the table is full the least recently seen peer is forgotten, so memory is bounded and a
// flood from many addresses affects only these addresses. One owner thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>

#include "base/clock.h"
#include "base/network.h"

namespace cloister::auth {

class Attempts {
 public:
  explicit Attempts(uint32_t per_minute) : per_minute_(per_minute) {}

  // 0: the peer may try. Otherwise the number of seconds to wait.
  [[nodiscard]] int waitSeconds(const base::Address& peer, base::Monotonic now);
  // Records a wrong credential.
  void failed(const base::Address& peer, base::Monotonic now);

  static constexpr size_t kMaxPeers = 8192;

 private:
  struct Peer {
    double left = 0;
    base::Monotonic at;
    std::list<base::Address>::iterator seen;
  };
  void refill(Peer& peer, base::Monotonic now) const;

  uint32_t per_minute_;
  std::map<base::Address, Peer> peers_;
  std::list<base::Address> order_;  // the most recently seen is last
};

}  // namespace cloister::auth
