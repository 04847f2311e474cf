// SPDX-License-Identifier: Apache-2.0
// Places: what a node has to give, shared by runs, which come and go, and sessions, which stay. A
// quarter of its sandboxes is never a session's, so that runs always get on. Pure. One thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cloister::orchestrator {

class Places {
 public:
  struct Bounds {
    uint32_t runs = 0;        // at once; 0: what the node offers
    double memory_share = 1;  // of the node's memory, for the limits of runs and sessions together
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
  [[nodiscard]] bool hasRunRoom(uint64_t memory) const {
    if (runs_ >= concurrency() || runs_ + sessions_ >= sandboxes_) return false;
    // One that is larger than the share by itself runs alone.
    return runs_ == 0 || fits(memory);
  }
  void takeRun(uint64_t memory) {
    runs_++;
    run_memory_ += memory;
  }
  void giveRun(uint64_t memory) {
    runs_--;
    run_memory_ -= memory;
  }

  [[nodiscard]] uint32_t forSessions() const { return sandboxes_ - (sandboxes_ + 3) / 4; }
  // A session takes its place ahead of the runs that wait: it has it once settled().
  void takeSession(uint64_t memory) {
    sessions_++;
    session_memory_ += memory;
  }
  void giveSession(uint64_t memory) {
    sessions_--;
    session_memory_ -= memory;
  }
  // There is room for all that was taken.
  [[nodiscard]] bool settled() const {
    return runs_ + sessions_ <= sandboxes_ && (runs_ == 0 || fits(0));
  }

  [[nodiscard]] uint32_t runs() const { return runs_; }
  [[nodiscard]] uint32_t sessions() const { return sessions_; }
  [[nodiscard]] uint64_t sessionMemory() const { return session_memory_; }

 private:
  [[nodiscard]] bool fits(uint64_t memory) const {
    return share_ == 0 || run_memory_ + session_memory_ + memory <= share_;
  }

  Bounds bounds_;
  uint32_t sandboxes_ = 0;
  uint64_t share_ = 0;  // bytes; 0: unknown
  uint32_t runs_ = 0;
  uint64_t run_memory_ = 0;  // sum of their limits
  uint32_t sessions_ = 0;
  uint64_t session_memory_ = 0;
};

}  // namespace cloister::orchestrator
