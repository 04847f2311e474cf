// SPDX-License-Identifier: Apache-2.0
// Records in a program's outcome which limits the program reached. For Run and SessionRun.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/outcome.h"
#include "sandbox/box/housing.h"
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
// Counts a program that runs in the workspace, for the object's lifetime.
class WorkspaceUse {
 public:
  explicit WorkspaceUse(WorkspaceState& state) : state_(state) { ++state_.programs; }
  WorkspaceUse(const WorkspaceUse&) = delete;
  WorkspaceUse& operator=(const WorkspaceUse&) = delete;
  ~WorkspaceUse() { --state_.programs; }

 private:
  WorkspaceState& state_;
};

// Adds hits for exhausted limits of the scratch file system, and updates `state`. A full workspace
// is the program's doing if the program ran alone and the workspace was not full before, or if the
// program failed and says so on stderr (`said`). A program that says so and leaves free space
// behind, as after removing its files, has probably met its limit (LimitHit::isProbable). Not
// fatal.
void addScratchHits(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits,
                    WorkspaceState& state, bool said);
// For a program that a signal ended: adds a fatal hit if the signal is a limit's. SIGXFSZ without a
// file at the limit is a guess (LimitHit::isProbable): a write far beyond the limit leaves no such
// file. The processor limit `cpu_limit` is met from `cpu_limit` - `apart` of `cpu` on (ms): any
// program can send itself SIGXCPU. True if a hit was added.
bool addSignalHit(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits,
                  uint64_t cpu_limit, uint64_t apart);

// Finds messages of programs that failed to write because of ENOSPC, in the words of strerror(3)
// and Node.js. Text may arrive in any pieces.
class NoSpaceLeft {
 public:
  void read(std::string_view bytes);
  [[nodiscard]] bool said() const { return said_; }

 private:
  bool said_ = false;
  std::string tail_;  // end of the text, which may begin a message
};

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
