// SPDX-License-Identifier: Apache-2.0
// FairQueue: waiting items, in turn by tenant and in order within each tenant, so that a tenant's
// thousand runs delay another tenant's first run by only one run. A turn has as many items as the
// tenant's weight. Bounded in number, per tenant, and in bytes held; a part of the bounds is kept
// for tenants with few waiting items (FairShare). Pure: no I/O, no clock. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "orchestrator/core/fair_share.h"

namespace cloister::orchestrator {

template <class Item>
class FairQueue {
 public:
  struct Bounds {
    size_t items = 1024;
    size_t items_per_tenant = 256;
    size_t bytes = size_t{256} << 20;
    Fairness fairness = {};
  };

  explicit FairQueue(Bounds bounds)
      : bounds_(std::move(bounds)),
        places_(bounds_.fairness, 1),
        bytes_(bounds_.fairness, kLeastBytes) {}

  // Holds a place until push() fills the place or release() frees the place. kQuota names the
  // bound.
  Result<> reserve(const std::string& tenant, size_t bytes) {
    if (places_.of(tenant) >= bounds_.items_per_tenant) {
      return full(bounds_.items_per_tenant, "runs of this tenant wait already");
    }
    // Approved runs wait outside the bounds, and do not block tenants with few waiting runs.
    if (!places_.has(tenant, 1, bounds_.items) && !places_.withinKept(tenant, 1, bounds_.items)) {
      return full(bounds_.items,
                  "runs may wait, and what is left of them, if anything, is kept for tenants with "
                  "few that wait (fairness.kept_percent)");
    }
    // An item beyond the bound gets a place in an empty queue.
    if (places_.total() > 0 && !bytes_.has(tenant, bytes, bounds_.bytes) &&
        !bytes_.withinKept(tenant, bytes, bounds_.bytes)) {
      return full(bounds_.bytes,
                  "bytes are there for requests that wait, and what is left of them is less than "
                  "this one, or kept for tenants with few that wait (fairness.kept_percent)");
    }
    take(tenant, bytes);
    return {};
  }

  // A place outside the bounds, for runs accepted before a restart.
  void take(const std::string& tenant, size_t bytes) {
    places_.take(tenant, 1);
    bytes_.take(tenant, bytes);
  }

  void release(const std::string& tenant, size_t bytes) {
    places_.give(tenant, 1);
    bytes_.give(tenant, bytes);
    const auto found = tenants_.find(tenant);
    if (found != tenants_.end() && found->second.waiting.empty()) tenants_.erase(found);
  }

  // Fills a place reserved for the same tenant.
  void push(const std::string& tenant, Item item) {
    std::deque<Item>& waiting = tenants_[tenant].waiting;
    if (waiting.empty()) turns_.push_back(tenant);
    waiting.push_back(std::move(item));
    size_++;
  }

  // The first item that passes `may`, by turn and then in order; nullptr for none.
  template <class May>
  [[nodiscard]] const Item* first(May may) const {
    for (const std::string& tenant : turns_) {
      const std::deque<Item>& waiting = tenants_.at(tenant).waiting;
      const auto found = std::ranges::find_if(waiting, may);
      if (found != waiting.end()) return &*found;
    }
    return nullptr;
  }
  // Takes the item of first(may), and ends or advances its tenant's turn. The item's place stays
  // held: call release().
  template <class May>
  std::optional<Item> pop(May may) {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      Tenant& tenant = tenants_[*turn];
      const auto found = std::ranges::find_if(tenant.waiting, may);
      if (found == tenant.waiting.end()) continue;
      Item item = std::move(*found);
      tenant.waiting.erase(found);
      size_--;
      const bool over = ++tenant.taken >= bounds_.fairness.weightOf(*turn);
      if (over || tenant.waiting.empty()) tenant.taken = 0;
      if (tenant.waiting.empty()) {
        turns_.erase(turn);
      } else if (over) {
        turns_.splice(turns_.end(), turns_, turn);
      }
      return item;
    }
    return std::nullopt;
  }

  // False if the item does not wait here. The item's place stays held: call release().
  bool remove(const std::string& tenant, const Item& item) {
    const auto found = tenants_.find(tenant);
    if (found == tenants_.end() || std::erase(found->second.waiting, item) == 0) return false;
    size_--;
    if (found->second.waiting.empty()) turns_.remove(tenant);
    return true;
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Tenant {
    std::deque<Item> waiting;
    uint32_t taken = 0;  // of its turn
  };
  // A tenant finds room for so much of requests in any case.
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 20;

  static std::unexpected<Error> full(size_t bound, std::string_view what) {
    return fail(Code::kQuota, "queueing the run: " + std::to_string(bound) + " " +
                                  std::string(what) + "; come back later");
  }

  Bounds bounds_;
  std::map<std::string, Tenant> tenants_;
  std::list<std::string> turns_;  // tenants with something waiting, in order of their turn
  FairShare places_;              // held, filled or not
  FairShare bytes_;
  size_t size_ = 0;
};

}  // namespace cloister::orchestrator
