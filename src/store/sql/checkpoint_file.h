// SPDX-License-Identifier: Apache-2.0
// The file of signed checkpoints beside the ledger: one JSON object a line, only ever added to, so
// that a copy of it elsewhere (or on write-once storage) proves what the ledger once held.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace cloister::store {

// All complete lines, oldest first; none if the file does not exist. A line that is no checkpoint
// is an error naming it; a last line without its end (a crash while writing) is left out.
Result<std::vector<Checkpoint>> readCheckpoints(const std::string& path);

// Adds a line and syncs it to disk, after removing what a crash left of an unfinished one.
Result<> appendCheckpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace cloister::store
