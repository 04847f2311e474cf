// SPDX-License-Identifier: Apache-2.0
// The anchor of the audit log: a file outside the database with the signed head of each commit,
// written before the commit is acknowledged. A truncated database, or an older copy, lacks the
// entry of the anchor's last line (docs/AUDIT.md).
//
// One checkpoint per line, as in the checkpoint file. If a line's entry is not above the previous
// line's entry, the log lost entries there and continued. The file's size is bounded: at the bound,
// a new file keeps the newest half, and the two lines of each loss.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"
#include "store/sql/mutex.h"
#include "store/sql/syncer.h"
#include "store/store.h"

namespace cloister::store {

class Anchor {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = uint64_t{1} << 20;
    Durability durability = Durability::kProcess;
    SyncFunction sync;
  };

  // Makes the file if there is none, and cuts an incomplete last line of a crash.
  static Result<std::unique_ptr<Anchor>> open(Options options);

  // Before a commit: has the room for its line, and makes good what append() could not do. An
  // error refuses the commit. From the writer thread.
  Result<> reserve();
  // After a commit, before its acknowledgement.
  Result<> append(const Checkpoint& head);

 private:
  explicit Anchor(Options options) : options_(std::move(options)) {}
  Result<> openFile() CLOISTER_REQUIRES(mutex_);
  Result<> allocate() CLOISTER_REQUIRES(mutex_);
  Result<> add(const Checkpoint& head) CLOISTER_REQUIRES(mutex_);
  Result<> rewrite(const std::optional<Checkpoint>& last) CLOISTER_REQUIRES(mutex_);

  const Options options_;
  Mutex mutex_;
  Fd fd_ CLOISTER_GUARDED_BY(mutex_);
  uint64_t inode_ CLOISTER_GUARDED_BY(mutex_) = 0;
  uint64_t size_ CLOISTER_GUARDED_BY(mutex_) = 0;
  uint64_t allocated_ CLOISTER_GUARDED_BY(mutex_) = 0;  // bytes reserved on the disk
  uint64_t rewrite_at_ CLOISTER_GUARDED_BY(mutex_) = 0;
  std::optional<Checkpoint> failed_ CLOISTER_GUARDED_BY(mutex_);  // to be added later
};

// All complete lines, oldest first; none if the file does not exist. Skips zeros of a power
// failure. A line without a valid checkpoint is an error.
Result<std::vector<Checkpoint>> readAnchor(const std::string& path);

// Entries lost from the log, which continued without the entries.
struct AnchoredLoss {
  uint64_t from = 0;
  uint64_t to = 0;
  int64_t at = 0;  // of the entry `to`
};
std::string lossText(const AnchoredLoss& loss);

// The log's expected content according to the lines.
struct Anchored {
  std::map<uint64_t, Checkpoint> heads;  // by entry
  std::vector<AnchoredLoss> losses;
};
Anchored anchored(const std::vector<Checkpoint>& lines);
// "" for none.
std::string lossesText(const Anchored& anchored);

// The lines that a file of `max_bytes` keeps.
std::vector<Checkpoint> keptLines(const std::vector<Checkpoint>& lines, uint64_t max_bytes);

}  // namespace cloister::store
