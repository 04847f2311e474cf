// SPDX-License-Identifier: Apache-2.0
// The file of signed checkpoints beside the ledger: one JSON object per line, append-only. A copy
// elsewhere (or on write-once storage) proves the ledger's earlier content.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace cloister::store {

// All complete lines, oldest first; none if the file does not exist. A line without a valid
// checkpoint is an error with the line's number; an incomplete last line (a crash while writing) is
// skipped.
Result<std::vector<Checkpoint>> readCheckpoints(const std::string& path);

// Adds a line and syncs the file to disk, after removing an incomplete line of a crash.
Result<> appendCheckpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace cloister::store
