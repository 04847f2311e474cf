// SPDX-License-Identifier: Apache-2.0
// Records in a program's outcome which limits the program reached. For Run and SessionRun.
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

// Interval between usage readings.
constexpr auto kUsagePeriod = std::chrono::milliseconds(50);
// Interval between readings of storage traffic, which read /proc of each process.
constexpr auto kIoPeriod = std::chrono::milliseconds(500);

// Adds a limit hit, `value` and `used` in `unit`. A fatal hit goes first.
void addHit(model::Outcome& outcome, std::string_view limit, uint64_t value, uint64_t used,
            std::string_view unit, bool fatal = false);
void addLocksHit(model::Outcome& outcome, const LocksOver& locks);
// A program killed at its time limit or at another limit carries SIGKILL, unless its own end is
// known.
void noteKill(model::Outcome& outcome);
// Adds hits for exhausted limits of the scratch file system. Not fatal.
void addScratchHits(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits);

// Finds messages of programs that failed to open a file because of EMFILE, in the words of
// strerror(3), Node.js and others. Ignores ENFILE, which concerns the machine. Text may arrive in
// any pieces.
class TooManyOpenFiles {
 public:
  void read(std::string_view bytes);
  [[nodiscard]] bool said() const;

 private:
  bool said_ = false;
  std::string tail_;  // end of the text, which may begin a message
};

// Adds the number of open files seen, and a hit if the program failed at the limit. Evidence is
// either the number seen or a message on stderr (`said`) that nothing contradicts; the message
// alone is a guess (LimitHit::isProbable). Not fatal.
void addOpenFiles(model::Outcome& outcome, const Scratch& scratch, bool said,
                  const model::Limits& limits);

// The programs' share of a sandbox's peak `pids`; nullopt if nobody counted.
inline std::optional<uint32_t> withoutRunner(uint32_t pids) {
  return pids > 0 ? std::optional(pids - 1) : std::nullopt;
}

// The capacity of a workspace made for `made` bytes: a file system on disk reserves some.
uint64_t workspaceLimit(uint64_t made, const Scratch& scratch);

inline uint64_t millisOf(std::chrono::milliseconds time) {
  return static_cast<uint64_t>(time.count());
}

}  // namespace cloister::runtime
