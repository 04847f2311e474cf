// SPDX-License-Identifier: Apache-2.0
// FairQueue: those accepted and waiting, in turn by tenant and in order within each, so that one
// tenant's thousand runs delay another's first by one. Bounded in number, per tenant, and in bytes
// held. Pure: no I/O, no clock. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace cloister::orchestrator {

template <class Item>
class FairQueue {
 public:
  struct Bounds {
    size_t items = 1024;
    size_t items_per_tenant = 256;
    size_t bytes = size_t{256} << 20;
  };

  explicit FairQueue(Bounds bounds) : bounds_(bounds) {}

  // Holds a place until push() fills it or release() gives it up. kQuota names the bound.
  Result<> reserve(const std::string& tenant, size_t bytes) {
    const auto found = tenants_.find(tenant);
    const size_t of_tenant = found == tenants_.end() ? 0 : found->second.places;
    if (places_ >= bounds_.items) return full(bounds_.items, "runs wait already");
    if (of_tenant >= bounds_.items_per_tenant) {
      return full(bounds_.items_per_tenant, "runs of this tenant wait already");
    }
    // One that is large by itself gets its place when nothing else waits.
    if (places_ > 0 && bytes_ + bytes > bounds_.bytes) {
      return full(bounds_.bytes, "bytes of requests wait already");
    }
    take(tenant, bytes);
    return {};
  }

  // A place outside the bounds, for what was accepted before a restart.
  void take(const std::string& tenant, size_t bytes) {
    tenants_[tenant].places++;
    places_++;
    bytes_ += bytes;
  }

  void release(const std::string& tenant, size_t bytes) {
    const auto found = tenants_.find(tenant);
    found->second.places--;
    places_--;
    bytes_ -= bytes;
    if (found->second.places == 0) tenants_.erase(found);
  }

  // Fills a place reserved for the same tenant.
  void push(const std::string& tenant, Item item) {
    std::deque<Item>& waiting = tenants_[tenant].waiting;
    if (waiting.empty()) turns_.push_back(tenant);
    waiting.push_back(std::move(item));
    size_++;
  }

  // The first, by turn and then in order, of those that `may`; nullptr for none.
  template <class May>
  [[nodiscard]] const Item* first(May may) const {
    for (const std::string& tenant : turns_) {
      const std::deque<Item>& waiting = tenants_.at(tenant).waiting;
      const auto found = std::ranges::find_if(waiting, may);
      if (found != waiting.end()) return &*found;
    }
    return nullptr;
  }
  // Takes that one, which ends its tenant's turn. Its place stays held: release() it.
  template <class May>
  std::optional<Item> pop(May may) {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      std::deque<Item>& waiting = tenants_[*turn].waiting;
      const auto found = std::ranges::find_if(waiting, may);
      if (found == waiting.end()) continue;
      Item item = std::move(*found);
      waiting.erase(found);
      size_--;
      if (waiting.empty()) {
        turns_.erase(turn);
      } else {
        turns_.splice(turns_.end(), turns_, turn);
      }
      return item;
    }
    return std::nullopt;
  }

  // False if it does not wait here (any more). Its place stays held: release() it.
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
    size_t places = 0;  // held, filled or not
  };

  static std::unexpected<Error> full(size_t bound, std::string_view what) {
    return fail(Code::kQuota, "queueing the run: " + std::to_string(bound) + " " +
                                  std::string(what) + "; come back later");
  }

  Bounds bounds_;
  std::map<std::string, Tenant> tenants_;
  std::list<std::string> turns_;  // tenants with something waiting, in order of their turn
  size_t places_ = 0;
  size_t bytes_ = 0;
  size_t size_ = 0;
};

}  // namespace cloister::orchestrator
