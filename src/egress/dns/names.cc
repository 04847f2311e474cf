// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/names.h"

#include <algorithm>

namespace cloister::egress {
namespace {

constexpr int kMinHostBits = 4;
constexpr int kV4Bits = 32;

// How many names have room beside the door's own addresses and the last one, which is the
// broadcast address of the pool.
size_t roomOf(const base::Network& pool) {
  return (size_t{1} << pool.hostBits()) - Names::kOwn - 1;
}

}  // namespace

Result<Names> Names::make(const base::Network& pool, size_t most) {
  const bool large = pool.first().isV4() && pool.hostBits() >= kMinHostBits;
  if (!large || pool.hostBits() > kV4Bits) {
    return fail(Code::kInvalid, "must be a range of IPv4 with at least 16 addresses");
  }
  return Names(pool, std::min(most, roomOf(pool)));
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
  return base::Address::ofV4(pool_.first().v4() + kOwn + index);
}

std::optional<std::string_view> Names::nameOf(const base::Address& address) const {
  if (!inPool(address)) return std::nullopt;
  const uint32_t offset = address.v4() - pool_.first().v4();
  if (offset < kOwn || offset - kOwn >= names_.size()) return std::nullopt;
  return names_[offset - kOwn];
}

bool Names::inPool(const base::Address& address) const {
  return pool_.contains(address);
}

}  // namespace cloister::egress
