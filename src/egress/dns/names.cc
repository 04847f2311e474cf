// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/names.h"

#include <algorithm>

namespace cloister::egress {
namespace {

constexpr int kMinHostBits = 4;
constexpr int kV4Bits = 32;

// How many names have room beside the door's own addresses and the last one, which is the
// broadcast address of the pool.
uint32_t roomOf(const base::Network& pool) {
  return static_cast<uint32_t>((uint64_t{1} << pool.hostBits()) - Names::kOwn - 1);
}

}  // namespace

Result<Names> Names::make(const base::Network& pool, size_t most, uint32_t place) {
  const bool large = pool.first().isV4() && pool.hostBits() >= kMinHostBits;
  if (!large || pool.hostBits() > kV4Bits) {
    return fail(Code::kInvalid, "must be a range of IPv4 with at least 16 addresses");
  }
  const uint32_t room = roomOf(pool);
  return Names(pool, std::min<size_t>(most, room), room, place);
}

std::optional<base::Address> Names::addressOf(std::string_view name) {
  const auto known = indices_.find(name);
  if (known == indices_.end() && names_.size() >= most_) return std::nullopt;
  auto index = static_cast<uint32_t>(names_.size());
  if (known != indices_.end()) {
    index = known->second;
  } else {
    names_.push_back(indices_.emplace(name, index).first->first);
  }
  const auto at = static_cast<uint32_t>((uint64_t{place_} + index) % room_);
  return base::Address::ofV4(pool_.first().v4() + kOwn + at);
}

std::optional<std::string_view> Names::nameOf(const base::Address& address) const {
  if (!inPool(address)) return std::nullopt;
  const uint32_t offset = address.v4() - pool_.first().v4();
  if (offset < kOwn || offset - kOwn >= room_) return std::nullopt;
  const uint64_t index = (uint64_t{offset} - kOwn + room_ - place_) % room_;
  return index < names_.size() ? std::optional(names_[index]) : std::nullopt;
}

bool Names::inPool(const base::Address& address) const {
  return pool_.contains(address);
}

}  // namespace cloister::egress
