// SPDX-License-Identifier: Apache-2.0
// The state of the workspace: of itself and of each name what it is, its mode, and the digest of
// its content, or the target of a link; of a regular file also when it was modified, and which of
// the names with it are one file.
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Returns errno: EFBIG beyond the limit of files or bytes.
int tellState(int workspace, uint64_t most_bytes, uint64_t most_files, Answer& answer);

}  // namespace cloister::runner
