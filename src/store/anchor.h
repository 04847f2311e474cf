// SPDX-License-Identifier: Apache-2.0
// The anchor of the audit log: a file outside the database that has the signed head of each commit
// before the commit is acknowledged. A database whose end was cut, or an older copy of it, does not
// have the entry that the anchor's last line speaks of (docs/AUDIT.md).
//
// One checkpoint a line, as in the checkpoint file. A line whose entry is not above the one of the
// line before says that the log lost entries there and went on. The file has a bound: at it, the
// newest half is written anew, with the two lines of each loss.
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

  // Makes the file if there is none, and cuts a last line that a crash left unfinished.
  static Result<std::unique_ptr<Anchor>> open(Options options);

  // Before a commit: has the room for its line, and makes good what append() could not do. An
  // error refuses the commit. From the writer thread.
  Result<> reserve();
  // Behind a commit, before it is acknowledged.
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
  uint64_t allocated_ CLOISTER_GUARDED_BY(mutex_) = 0;  // bytes that the disk has for it
  uint64_t rewrite_at_ CLOISTER_GUARDED_BY(mutex_) = 0;
  std::optional<Checkpoint> failed_ CLOISTER_GUARDED_BY(mutex_);  // that is to be added yet
};

// All complete lines, oldest first; none if the file does not exist. What a loss of power left as
// zeros is left out. A line that is no checkpoint is an error.
Result<std::vector<Checkpoint>> readAnchor(const std::string& path);

// Entries that the log once had, and does not have since it went on without them.
struct AnchoredLoss {
  uint64_t from = 0;
  uint64_t to = 0;
  int64_t at = 0;  // of the entry `to`
};
std::string lossText(const AnchoredLoss& loss);

// What the lines say of the log as it is to be now.
struct Anchored {
  std::map<uint64_t, Checkpoint> heads;  // by entry
  std::vector<AnchoredLoss> losses;
};
Anchored anchored(const std::vector<Checkpoint>& lines);
// "" for none.
std::string lossesText(const Anchored& anchored);

// Of the lines, those that a file of `max_bytes` keeps.
std::vector<Checkpoint> keptLines(const std::vector<Checkpoint>& lines, uint64_t max_bytes);

}  // namespace cloister::store
