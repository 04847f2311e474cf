// SPDX-License-Identifier: Apache-2.0
// Places: what a node has to give, shared by runs, which come and go, and sessions, which stay. A
// quarter of its sandboxes is never a session's, so that runs always get on. Pure. One thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/limits.h"

namespace cloister::orchestrator {

// Bytes that one run or session takes of what a node has.
struct Need {
  uint64_t memory = 0;
  uint64_t disk = 0;  // 0: its workspace is in its memory
};

class Places {
 public:
  struct Bounds {
    uint32_t runs = 0;        // at once; 0: what the node offers
    double memory_share = 1;  // of the node's memory, for the limits of runs and sessions together
    uint64_t disk = 0;        // bytes, for their workspaces on disk together
    uint64_t disk_over = UINT64_MAX;  // model::needsDisk()
  };

  explicit Places(Bounds bounds) : bounds_(bounds) {}

  // What the node has; nothing while there is none.
  void offer(uint32_t sandboxes, uint64_t memory_bytes) {
    sandboxes_ = sandboxes;
    share_ = static_cast<uint64_t>(static_cast<double>(memory_bytes) * bounds_.memory_share);
  }

  // How many runs there may be at once.
  [[nodiscard]] uint32_t concurrency() const {
    return bounds_.runs == 0 ? sandboxes_ : std::min(bounds_.runs, sandboxes_);
  }
  [[nodiscard]] Need needOf(const model::Limits& limits) const {
    return {limits.memory_bytes, needsDisk(limits, bounds_.disk_over) ? limits.disk_bytes : 0};
  }
  [[nodiscard]] bool hasRunRoom(const Need& need) const {
    if (runs_ >= concurrency() || runs_ + sessions_ >= sandboxes_) return false;
    // One that is larger than the share by itself runs alone.
    return hasDisk(need) && (runs_ == 0 || fits(need.memory));
  }
  // Who waits for disk alone keeps nobody waiting who needs none.
  [[nodiscard]] bool hasDisk(const Need& need) const {
    return need.disk == 0 || diskTaken() + need.disk <= bounds_.disk;
  }
  // Sessions leave so much: what is lacking comes back as runs end.
  [[nodiscard]] bool hasDiskBesideSessions(const Need& need) const {
    return need.disk == 0 || sessions_need_.disk + need.disk <= bounds_.disk;
  }
  void takeRun(const Need& need) {
    runs_++;
    add(runs_need_, need);
  }
  void giveRun(const Need& need) {
    runs_--;
    subtract(runs_need_, need);
  }

  [[nodiscard]] uint32_t forSessions() const { return sandboxes_ - (sandboxes_ + 3) / 4; }
  // A session takes its place ahead of the runs that wait: it has it once settled().
  void takeSession(const Need& need) {
    sessions_++;
    add(sessions_need_, need);
  }
  void giveSession(const Need& need) {
    sessions_--;
    subtract(sessions_need_, need);
  }
  // There is room for all that was taken; of disk, where `need` has any.
  [[nodiscard]] bool settled(const Need& need) const {
    return runs_ + sessions_ <= sandboxes_ &&
           (runs_ == 0 || (fits(0) && (need.disk == 0 || diskTaken() <= bounds_.disk)));
  }

  [[nodiscard]] uint32_t runs() const { return runs_; }
  [[nodiscard]] uint32_t sessions() const { return sessions_; }
  [[nodiscard]] const Need& sessionsNeed() const { return sessions_need_; }
  [[nodiscard]] uint64_t diskTaken() const { return runs_need_.disk + sessions_need_.disk; }
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }

 private:
  [[nodiscard]] bool fits(uint64_t memory) const {
    return share_ == 0 || runs_need_.memory + sessions_need_.memory + memory <= share_;
  }
  static void add(Need& sum, const Need& need) {
    sum.memory += need.memory;
    sum.disk += need.disk;
  }
  static void subtract(Need& sum, const Need& need) {
    sum.memory -= need.memory;
    sum.disk -= need.disk;
  }

  Bounds bounds_;
  uint32_t sandboxes_ = 0;
  uint64_t share_ = 0;  // bytes; 0: unknown
  uint32_t runs_ = 0;
  Need runs_need_;  // sum of theirs
  uint32_t sessions_ = 0;
  Need sessions_need_;
};

}  // namespace cloister::orchestrator
