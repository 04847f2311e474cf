// SPDX-License-Identifier: Apache-2.0
// Places: a node's capacity, shared by short runs and long sessions. A quarter of the sandboxes is
// never used by sessions, so that runs always proceed. A part of the places, of the memory and of
// sessions' share is kept for tenants with little use (FairShare). Pure. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "model/limits.h"
#include "orchestrator/core/fair_share.h"

namespace cloister::orchestrator {

// Bytes that a run or session takes of a node's capacity.
struct Need {
  uint64_t memory = 0;
  uint64_t disk = 0;  // 0: its workspace is in its memory
  std::string tenant = {};
};

class Places {
 public:
  struct Bounds {
    uint32_t runs = 0;        // at once; 0: the node's number
    double memory_share = 1;  // of the node's memory, for the limits of runs and sessions together
    uint64_t disk = 0;        // bytes, for their workspaces on disk together
    uint64_t disk_over = UINT64_MAX;  // model::needsDisk()
    Fairness fairness = {};
  };

  explicit Places(Bounds bounds)
      : bounds_(std::move(bounds)),
        places_(bounds_.fairness, 1),
        run_places_(bounds_.fairness, 1),
        session_places_(bounds_.fairness, 1),
        memory_(bounds_.fairness, model::Limits{}.memory_bytes),
        sessions_memory_(bounds_.fairness, model::Limits{}.memory_bytes) {}

  // The node's capacity; 0 without a node.
  void offer(uint32_t sandboxes, uint64_t memory_bytes) {
    sandboxes_ = sandboxes;
    share_ = static_cast<uint64_t>(static_cast<double>(memory_bytes) * bounds_.memory_share);
  }

  // How many runs there may be at once.
  [[nodiscard]] uint32_t concurrency() const {
    return bounds_.runs == 0 ? sandboxes_ : std::min(bounds_.runs, sandboxes_);
  }
  [[nodiscard]] Need needOf(const model::Limits& limits, const std::string& tenant = "") const {
    const uint64_t disk = needsDisk(limits, bounds_.disk_over) ? limits.disk_bytes : 0;
    return {limits.memory_bytes, disk, tenant};
  }
  [[nodiscard]] bool hasRunRoom(const Need& need) const {
    return hasRoom(need, [&](const FairShare& share, uint64_t amount, uint64_t all, bool) {
      return share.has(need.tenant, amount, all);
    });
  }
  // As hasRunRoom(), for a run that has waited long.
  [[nodiscard]] bool hasRunRoomAtLast(const Need& need) const {
    return hasRoom(need, [&](const FairShare& share, uint64_t amount, uint64_t all, bool) {
      return share.hasAtLast(need.tenant, amount, all);
    });
  }
  // As hasRunRoom(), for other runs while `late` waits. If `late` lacks a resource, tenants that
  // would use more of the resource than the tenant of `late` does get only its kept part.
  [[nodiscard]] bool hasRunRoomBeside(const Need& late, const Need& need) const {
    return !hasRunRoomAtLast(late) &&
           hasRoom(need, [&](const FairShare& share, uint64_t amount, uint64_t all, bool memory) {
             const bool lacks = !share.hasAtLast(late.tenant, memory ? late.memory : 1, all);
             const bool less = share.of(need.tenant) + amount <= share.of(late.tenant);
             return lacks && !less ? share.hasOfKept(need.tenant, amount, all)
                                   : share.has(need.tenant, amount, all);
           });
  }
  // Whether there is a place at all.
  [[nodiscard]] bool anyRunRoom() const {
    return runs_ < concurrency() && runs_ + sessions_ - awaited_ < sandboxes_;
  }
  // True if the run can ever have room beside other runs.
  [[nodiscard]] bool fitsBesideOthers(const Need& need) const {
    return share_ == 0 || need.memory <= share_ - memory_.kept(share_);
  }
  // A run that waits only for disk does not delay runs without disk.
  [[nodiscard]] bool hasDisk(const Need& need) const {
    return need.disk == 0 || diskTaken() + need.disk <= bounds_.disk;
  }
  // True if sessions leave enough disk; runs' disk becomes free as runs end.
  [[nodiscard]] bool hasDiskBesideSessions(const Need& need) const {
    return need.disk == 0 || sessions_disk_ + need.disk <= bounds_.disk;
  }
  // Notes in `need` the amount for giveRun(). For a large run that runs alone, only a part of its
  // memory counts, so that the kept part stays free for others.
  void takeRun(Need& need) {
    const uint64_t most = share_ - memory_.kept(share_);
    const bool alone = runs_ == 0 && share_ != 0 && !memory_.has(need.tenant, need.memory, share_);
    if (alone) need.memory = std::min(need.memory, most - std::min(most, memory_.total()));
    runs_++;
    places_.take(need.tenant, 1);
    run_places_.take(need.tenant, 1);
    memory_.take(need.tenant, need.memory);
    runs_disk_ += need.disk;
  }
  void giveRun(const Need& need) {
    runs_--;
    places_.give(need.tenant, 1);
    run_places_.give(need.tenant, 1);
    memory_.give(need.tenant, need.memory);
    runs_disk_ -= need.disk;
  }

  [[nodiscard]] uint32_t forSessions() const { return sandboxes_ - (sandboxes_ + 3) / 4; }
  // Reserves a session's place ahead of waiting runs. When comes() is true call arrive(). A moving
  // session's second place does not count in the share of sessions.
  void awaitSession(const Need& need, bool second = false) {
    sessions_++;
    awaited_++;
    places_.await(need.tenant, 1);
    memory_.await(need.tenant, need.memory);
    session_places_.take(need.tenant, second ? 0 : 1);
    sessions_memory_.take(need.tenant, second ? 0 : need.memory);
    sessions_disk_ += need.disk;
  }
  [[nodiscard]] bool comes(const Need& need) const {
    return places_.comes(need.tenant, 1, sandboxes_) &&
           (runs_ == 0 || share_ == 0 || memory_.comes(need.tenant, need.memory, share_)) &&
           hasDiskOf(need);
  }
  void arrive(const Need& need) {
    awaited_--;
    places_.arrive(1);
    memory_.arrive(need.memory);
  }
  // Ends a session with a place.
  void giveSession(const Need& need, bool second = false) {
    sessions_--;
    places_.give(need.tenant, 1);
    memory_.give(need.tenant, need.memory);
    session_places_.give(need.tenant, second ? 0 : 1);
    sessions_memory_.give(need.tenant, second ? 0 : need.memory);
    sessions_disk_ -= need.disk;
  }
  // True if the tenant may have another session, of `all`.
  [[nodiscard]] bool hasSessionPlace(const std::string& tenant, uint32_t all) const {
    return session_places_.has(tenant, 1, all);
  }
  // As hasSessionPlace(), for the sessions' `share` of memory in bytes.
  [[nodiscard]] bool hasSessionMemory(const Need& need, uint64_t share) const {
    return sessions_memory_.has(need.tenant, need.memory, share);
  }
  [[nodiscard]] uint32_t runs() const { return runs_; }
  [[nodiscard]] uint64_t sessions() const { return session_places_.total(); }
  // Including second places of moving sessions.
  [[nodiscard]] uint32_t sandboxesOfSessions() const { return sessions_; }
  [[nodiscard]] uint64_t sessionsMemory() const { return sessions_memory_.total(); }
  [[nodiscard]] uint64_t sessionsDisk() const { return sessions_disk_; }
  [[nodiscard]] uint64_t diskTaken() const { return runs_disk_ + sessions_disk_; }
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }

 private:
  template <class Has>
  bool hasRoom(const Need& need, Has has) const {
    if (!anyRunRoom() || !hasDisk(need)) return false;
    if (!has(run_places_, 1, concurrency(), false) || !has(places_, 1, sandboxes_, false))
      return false;
    // If nothing runs, any run may run alone, however large.
    return runs_ == 0 || share_ == 0 || has(memory_, need.memory, share_, true);
  }
  [[nodiscard]] bool hasDiskOf(const Need& need) const {
    return runs_ == 0 || need.disk == 0 || diskTaken() <= bounds_.disk;
  }

  Bounds bounds_;
  uint32_t sandboxes_ = 0;
  uint64_t share_ = 0;  // bytes; 0: unknown
  uint32_t runs_ = 0;
  uint32_t sessions_ = 0;
  uint32_t awaited_ = 0;  // of these
  FairShare places_;      // of both
  FairShare run_places_;
  FairShare session_places_;
  FairShare memory_;  // bytes, of both
  FairShare sessions_memory_;
  uint64_t runs_disk_ = 0;
  uint64_t sessions_disk_ = 0;
};

}  // namespace cloister::orchestrator
