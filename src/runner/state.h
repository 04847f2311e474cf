// SPDX-License-Identifier: Apache-2.0
// The state of the workspace and the home directory. For the workspace and each name in either: the
// type, the mode, and the digest of the content, or the target of a link. For a regular file also
// the modification time, and which of the workspace's names are hard links to the same file.
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Returns errno: EFBIG beyond the limit of files or bytes.
int tellState(int workspace, int home, uint64_t most_bytes, uint64_t most_files, Answer& answer);

}  // namespace cloister::runner
