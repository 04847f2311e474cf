// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/limit_hits.h"

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
  // ext4 frees the blocks preallocated for a growing file after refusing a write, so some space may
  // look free.
  constexpr uint64_t kSetAside = uint64_t{1} << 20;
  const uint64_t left = scratch.bytes_total > model::scratchBytes(limits) ? kSetAside : kPage;
  if (scratch.bytes_total > 0 && scratch.bytes + left > scratch.bytes_total) {
    addHit(outcome, limit_name::kDisk, scratch.bytes_total, scratch.bytes, "bytes");
  }
  // A program that ignores SIGXFSZ, as Python does, fails at the write and leaves the file at the
  // limit.
  const bool failed = outcome.end == model::End::kExited && outcome.exit_code != 0;
  if (failed && limits.file_bytes > 0 && scratch.largest_file >= limits.file_bytes) {
    addHit(outcome, limit_name::kFileSize, limits.file_bytes, scratch.largest_file, "bytes");
  }
  if (scratch.inodes_total > 0 && scratch.inodes >= scratch.inodes_total) {
    addHit(outcome, limit_name::kInodes, scratch.inodes_total, scratch.inodes, "files");
  }
}

namespace {

constexpr std::string_view kTexts[] = {"oo many open files", "EMFILE"};
constexpr std::string_view kOfTheMachine = " in system";
constexpr size_t kLongest = kTexts[0].size() + kOfTheMachine.size();

// Whether `text` has a message of kTexts. `whole`: no text follows that could change the match.
bool findsTooMany(std::string_view text, bool whole) {
  for (const std::string_view each : kTexts) {
    for (size_t at = 0; (at = text.find(each, at)) != std::string_view::npos; ++at) {
      const std::string_view rest = text.substr(at + each.size());
      const bool may_be_other = rest.size() < kOfTheMachine.size() && !whole;
      if (!rest.starts_with(kOfTheMachine) && !may_be_other) return true;
    }
  }
  return false;
}

}  // namespace

void TooManyOpenFiles::read(std::string_view bytes) {
  if (said_) return;
  tail_ += bytes;
  said_ = findsTooMany(tail_, false);
  if (tail_.size() > kLongest) tail_.erase(0, tail_.size() - kLongest);
}

bool TooManyOpenFiles::said() const {
  return said_ || findsTooMany(tail_, true);
}

void addOpenFiles(model::Outcome& outcome, const Scratch& scratch, bool said,
                  const model::Limits& limits) {
  if (scratch.open_files > 0) outcome.usage.open_files = scratch.open_files;
  const bool failed = (outcome.end == model::End::kExited && outcome.exit_code != 0) ||
                      outcome.end == model::End::kSignaled;
  // The program cannot have opened so many files, despite its message.
  const bool refuted = scratch.file_table > 0 && scratch.file_table < limits.open_files;
  const bool seen = scratch.open_files >= limits.open_files;
  if (seen) outcome.usage.open_files = limits.open_files;
  if (failed && (seen || (said && !refuted))) {
    addHit(outcome, limit_name::kOpenFiles, limits.open_files,
           std::min(scratch.open_files, limits.open_files), "files");
  }
}

uint64_t workspaceLimit(uint64_t made, const Scratch& scratch) {
  return scratch.bytes_total > 0 ? std::min(made, scratch.bytes_total) : made;
}

}  // namespace cloister::runtime
