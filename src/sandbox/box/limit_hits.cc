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

namespace {

bool hasFailed(const model::Outcome& outcome) {
  return (outcome.end == model::End::kExited && outcome.exit_code != 0) ||
         outcome.end == model::End::kSignaled;
}

}  // namespace

void addScratchHits(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits,
                    WorkspaceState& state, bool said) {
  constexpr uint64_t kPage = 4096;
  // ext4 frees the blocks preallocated for a growing file after refusing a write, so some space may
  // look free.
  constexpr uint64_t kSetAside = uint64_t{1} << 20;
  const uint64_t left = scratch.bytes_total > model::scratchBytes(limits) ? kSetAside : kPage;
  const bool full = scratch.bytes_total > 0 && scratch.bytes + left > scratch.bytes_total;
  const bool files_full = scratch.inodes_total > 0 && scratch.inodes >= scratch.inodes_total;
  const bool tells = said && hasFailed(outcome);
  const bool alone = state.programs <= 1;
  if (full && (tells || (alone && !state.full))) {
    addHit(outcome, limit_name::kDisk, scratch.bytes_total, scratch.bytes_total, "bytes");
  } else if (tells && !full && !files_full && scratch.bytes_total > 0) {
    addHit(outcome, limit_name::kDisk, scratch.bytes_total, scratch.bytes, "bytes");
  }
  // A program that ignores SIGXFSZ, as Python does, fails at the write and leaves the file at the
  // limit.
  const bool failed = outcome.end == model::End::kExited && outcome.exit_code != 0;
  if (failed && limits.file_bytes > 0 && scratch.largest_file >= limits.file_bytes) {
    addHit(outcome, limit_name::kFileSize, limits.file_bytes, scratch.largest_file, "bytes");
  }
  if (files_full && (tells || (alone && !state.files_full))) {
    addHit(outcome, limit_name::kInodes, scratch.inodes_total, scratch.inodes, "files");
  }
  if (scratch.bytes_total > 0) state.full = full;
  if (scratch.inodes_total > 0) state.files_full = files_full;
}

bool addSignalHit(model::Outcome& outcome, const Scratch& scratch, const model::Limits& limits,
                  uint64_t cpu_limit, uint64_t apart) {
  if (outcome.signal == SIGXFSZ && limits.file_bytes > 0) {
    addHit(outcome, limit_name::kFileSize, limits.file_bytes, scratch.largest_file, "bytes", true);
    return true;
  }
  const auto cpu = static_cast<uint64_t>(std::max<int64_t>(outcome.usage.cpu_ms, 0));
  const bool ends = outcome.signal == SIGXCPU || outcome.signal == SIGKILL;
  if (!ends || cpu_limit == 0 || cpu + apart < cpu_limit) return false;
  addHit(outcome, limit_name::kCpuTime, cpu_limit, cpu, "ms", true);
  return true;
}

void NoSpaceLeft::read(std::string_view bytes) {
  constexpr std::string_view kTexts[] = {"o space left on device", "ENOSPC"};
  if (said_) return;
  tail_ += bytes;
  said_ = std::ranges::any_of(kTexts, [this](auto text) { return tail_.contains(text); });
  if (tail_.size() > kTexts[0].size()) tail_.erase(0, tail_.size() - kTexts[0].size());
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
  const bool failed = hasFailed(outcome);
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
