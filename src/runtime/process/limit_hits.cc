// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/limit_hits.h"

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>

namespace cloister::runtime {

namespace limit_name = model::limit_name;

void addHit(model::Outcome& outcome, std::string_view limit, uint64_t value, uint64_t used,
            std::string_view unit, bool fatal) {
  model::LimitHit entry{std::string(limit), value, used, std::string(unit), fatal};
  outcome.limits.insert(fatal ? outcome.limits.begin() : outcome.limits.end(), std::move(entry));
}

void addLocksHit(model::Outcome& outcome, const LocksOver& locks) {
  addHit(outcome, limit_name::kFileLocks, locks.most, locks.held, "locks", true);
}

void noteKill(model::Outcome& outcome) {
  const bool killed = outcome.end == model::End::kTimedOut || outcome.end == model::End::kLimit;
  if (killed && outcome.signal == 0 && outcome.exit_code == 0) outcome.signal = SIGKILL;
}

void addScratchHits(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits) {
  constexpr uint64_t kPage = 4096;
  if (scratch.bytes_total > 0 && scratch.bytes + kPage > scratch.bytes_total) {
    addHit(outcome, limit_name::kDisk, scratch.bytes_total, scratch.bytes, "bytes");
  }
  // A program that ignores SIGXFSZ, as Python's do, fails at a write and leaves the file.
  const bool failed = outcome.end == model::End::kExited && outcome.exit_code != 0;
  if (failed && limits.file_bytes > 0 && scratch.largest_file >= limits.file_bytes) {
    addHit(outcome, limit_name::kFileSize, limits.file_bytes, scratch.largest_file, "bytes");
  }
  if (scratch.inodes_total > 0 && scratch.inodes >= scratch.inodes_total) {
    addHit(outcome, limit_name::kInodes, scratch.inodes_total, scratch.inodes, "files");
  }
}

uint64_t workspaceLimit(uint64_t made, const Scratch& scratch) {
  return scratch.bytes_total > 0 ? std::min(made, scratch.bytes_total) : made;
}

}  // namespace cloister::runtime
