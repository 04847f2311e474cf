// SPDX-License-Identifier: Apache-2.0
// FairShare: a bounded resource that tenants share. A part of the resource is kept for tenants with
// little use, so that a new tenant finds room however much the others want. A tenant within its
// base may take from the whole; use beyond the base leaves the kept part free. Pure: no clock. One
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cloister::orchestrator {

struct Fairness {
  uint32_t kept_percent = 0;                     // of each such thing
  std::map<std::string, uint32_t> weights = {};  // of tenants

  [[nodiscard]] uint32_t weightOf(const std::string& tenant) const {
    const auto found = weights.find(tenant);
    return found == weights.end() ? 1 : found->second;
  }
};

// Rows of `TENANT = N`. kInvalid names an invalid row, or a tenant's second row.
Result<std::map<std::string, uint32_t>> parseWeights(const std::vector<std::string>& rows);

class FairShare {
 public:
  // `least`: guaranteed amount for a tenant.
  FairShare(Fairness fairness, uint64_t least) : fairness_(std::move(fairness)), least_(least) {}

  // True if `tenant` may take `amount` more of `all`.
  [[nodiscard]] bool has(const std::string& tenant, uint64_t amount, uint64_t all) const {
    return fits(total_, amount, all - kept(all)) ||
           (isBase(tenant, amount, all) && fits(total_ - awaited_, amount, all));
  }
  // As has(), for a request that has waited long: tenants' use within their base counts towards the
  // kept part, up to the size of the kept part.
  [[nodiscard]] bool hasAtLast(const std::string& tenant, uint64_t amount, uint64_t all) const {
    const uint64_t base = std::min({usedAsBase(all), kept(all), total_});
    return has(tenant, amount, all) ||
           (fits(total_, amount, all) && fits(total_ - base, amount, all - kept(all)));
  }
  // The same for others meanwhile: of the kept part alone.
  [[nodiscard]] bool hasOfKept(const std::string& tenant, uint64_t amount, uint64_t all) const {
    return withinKept(tenant, amount, all) && fits(total_ - awaited_, amount, all);
  }
  // As hasOfKept(), but ignores others' use beyond `all`.
  [[nodiscard]] bool withinKept(const std::string& tenant, uint64_t amount, uint64_t all) const {
    return isBase(tenant, amount, all) && fits(usedAsBase(all), amount, kept(all));
  }
  void take(const std::string& tenant, uint64_t amount) {
    if (amount == 0) return;
    used_[tenant] += amount;
    total_ += amount;
    base_use_.reset();
  }
  // Gives back, of its own.
  void give(const std::string& tenant, uint64_t amount) {
    const auto found = used_.find(tenant);
    if (amount == 0 || found == used_.end()) return;
    const uint64_t given = std::min(found->second, amount);
    found->second -= given;
    total_ -= given;
    if (found->second == 0) used_.erase(found);
    base_use_.reset();
  }

  // Reserves an amount ahead of others, possibly before the amount is free. When comes() is true
  // call arrive(). Meanwhile the reservation blocks no tenant within its base.
  void await(const std::string& tenant, uint64_t amount) {
    take(tenant, amount);
    awaited_ += amount;
  }
  [[nodiscard]] bool comes(const std::string& tenant, uint64_t amount, uint64_t all) const {
    const uint64_t there = total_ - awaited_;
    return fits(there, amount, all - kept(all)) ||
           (isBase(tenant, 0, all) && fits(there, amount, all));
  }
  void arrive(uint64_t amount) { awaited_ -= amount; }

  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] uint64_t of(const std::string& tenant) const {
    const auto found = used_.find(tenant);
    return found == used_.end() ? 0 : found->second;
  }
  // 0 if `all` is too little for four tenants.
  [[nodiscard]] uint64_t kept(uint64_t all) const {
    if (fairness_.kept_percent == 0 || all / 4 < least_) return 0;
    return std::max(all * fairness_.kept_percent / 100, least_);
  }

 private:
  static bool fits(uint64_t there, uint64_t amount, uint64_t all) {
    return amount <= all && there <= all - amount;
  }
  // True if the tenant stays within its base.
  [[nodiscard]] bool isBase(const std::string& tenant, uint64_t amount, uint64_t all) const {
    return kept(all) != 0 && of(tenant) + amount <= base(tenant, all);
  }
  // The kept part is divided between its present users and one new tenant.
  [[nodiscard]] uint64_t base(const std::string& tenant, uint64_t all) const {
    const uint64_t kept_part = kept(all);
    const uint64_t weighed = fairness_.weightOf(tenant) * (kept_part / (used_.size() + 1));
    return std::max(least_, std::min(weighed, kept_part - std::min(kept_part, least_)));
  }
  // Use of all tenants within their base.
  [[nodiscard]] uint64_t usedAsBase(uint64_t all) const {
    if (base_use_ && base_use_->first == all) return base_use_->second;
    uint64_t sum = 0;
    for (const auto& [tenant, used] : used_)
      sum += used <= base(tenant, all) ? used : 0;
    base_use_ = {all, sum};
    return sum;
  }

  Fairness fairness_;
  uint64_t least_;
  uint64_t total_ = 0;
  uint64_t awaited_ = 0;
  std::map<std::string, uint64_t> used_;
  // The last answer of usedAsBase(), and for how much of all; until somebody takes or gives.
  mutable std::optional<std::pair<uint64_t, uint64_t>> base_use_;
};

}  // namespace cloister::orchestrator
