// SPDX-License-Identifier: Apache-2.0
// A ledger whose disk can be full, or slow, for tests.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "store/rows/artifacts.h"
#include "store/rows/executions.h"
#include "store/rows/keys.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/store.h"

namespace cloister::orchestrator {

// The real ledger, with a disk that may be full.
class BrittleStore final : private store::WriteGate, public store::Store {
 public:
  explicit BrittleStore(std::unique_ptr<store::Store> real) : Store(std::move(*real)) {
    setGate(*this);
  }

  bool full = false;
  int refused = 0;     // writes, while full
  bool slow = false;   // new executions and all of sessions wait for letGo()
  bool stuck = false;  // every write waits for letGo()

  [[nodiscard]] size_t waiting() const { return held_.size(); }
  void letGo() {
    slow = stuck = false;
    for (auto& write : std::exchange(held_, {}))
      pass(std::move(write));
  }

 private:
  std::unique_ptr<store::QueuedWrite> admit(std::unique_ptr<store::QueuedWrite> write) override {
    if (full && !isSmall(*write)) {
      refused++;
      write->finish(fail(Code::kNoSpace, "writing the ledger: No space left on device"));
      return nullptr;
    }
    if (!stuck && (!slow || !isSlow(*write))) return write;
    held_.push_back(std::move(write));
    return nullptr;
  }
  Result<> outage() override {
    if (full) return fail(Code::kNoSpace, "the disk is full");
    return {};
  }

  template <size_t N>
  static bool isOneOf(const store::QueuedWrite& write, const std::array<store::AnyRow, N>& rows) {
    return std::ranges::find(rows, write.about.row) != rows.end();
  }
  static bool isSlow(const store::QueuedWrite& write) {
    return isOneOf(
        write, std::array{store::rowOf(store::acceptExecution), store::rowOf(store::createSession),
                          store::rowOf(store::updateSession)});
  }
  // Removals and small changes find room on a full disk.
  static bool isSmall(const store::QueuedWrite& write) {
    return isOneOf(
        write, std::array{store::rowOf(store::putKey), store::rowOf(store::revokeKey),
                          store::rowOf(store::rotateKey), store::rowOf(store::noteKeyUse),
                          store::rowOf(store::retain), store::rowOf(store::removeArtifact),
                          store::rowOf(store::removeArtifacts), store::rowOf(store::removeSnapshot),
                          store::rowOf(store::redact)});
  }

  std::vector<std::unique_ptr<store::QueuedWrite>> held_;
};

}  // namespace cloister::orchestrator
