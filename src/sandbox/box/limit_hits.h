// SPDX-License-Identifier: Apache-2.0
// What a program met of its limits, into its outcome. For Run and SessionRun.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/outcome.h"
#include "sandbox/box/runner_channel.h"
#include "sandbox/host/lock_watch.h"

namespace cloister::runtime {

// Between looks at what is used.
constexpr auto kUsagePeriod = std::chrono::milliseconds(50);
// Between those at what storage gave and took, which ask for each process.
constexpr auto kIoPeriod = std::chrono::milliseconds(500);

// One limit, `value` and `used` in `unit`. A fatal one goes first.
void addHit(model::Outcome& outcome, std::string_view limit, uint64_t value, uint64_t used,
            std::string_view unit, bool fatal = false);
void addLocksHit(model::Outcome& outcome, const LocksOver& locks);
// What was killed at its time or another limit carries SIGKILL, unless its own end is known.
void noteKill(model::Outcome& outcome);
// Those of the scratch file system that are used up; not fatal.
void addScratchHits(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits);

// What programs say when a file cannot be opened because too many are: EMFILE, as strerror(3),
// Node.js and others put it. Not ENFILE, which is the machine's. Found in any pieces.
class TooManyOpenFiles {
 public:
  void read(std::string_view bytes);
  [[nodiscard]] bool said() const;

 private:
  bool said_ = false;
  std::string tail_;  // what may yet become it
};

// A program that failed at its limit of open files: it was seen to have so many, or it said so on
// its stderr (`said`) and nothing speaks against it, which is a guess (LimitHit::isProbable). Not
// fatal. And how many it was seen to have.
void addOpenFiles(model::Outcome& outcome, const Scratch& scratch, bool said,
                  const model::Limits& limits);

// Of a sandbox's `pids` at the peak, those of its programs; nothing where nobody counts.
inline std::optional<uint32_t> withoutRunner(uint32_t pids) {
  return pids > 0 ? std::optional(pids - 1) : std::nullopt;
}

// What a workspace that was made for `made` bytes could hold: a file system on disk keeps some.
uint64_t workspaceLimit(uint64_t made, const Scratch& scratch);

inline uint64_t millisOf(std::chrono::milliseconds time) {
  return static_cast<uint64_t>(time.count());
}

}  // namespace cloister::runtime
