// SPDX-License-Identifier: Apache-2.0
// The last walk over a tree that the confined process has made, by its parent, which takes nothing
// for granted of it: whatever it is, afterwards it is fit to be an image.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "images/bounds.h"

namespace cloister::images {

struct TreeSize {
  uint64_t files = 0;  // files, directories and links, without the root itself
  uint64_t bytes = 0;  // of the files
};

// Of the tree in the open directory: the places that sandboxes mount over become empty directories
// (proc, dev, tmp, workspace, run), etc is there; devices, FIFOs and sockets go; what is left
// belongs to this process's user and group, has no set-user-ID and the like, no extended
// attributes, and is written by nobody else; directories have one time, so that equal trees are
// equal. kTooLarge over a bound, kInvalid for a file that is linked from outside.
Result<TreeSize> finishTree(int root, const Bounds& bounds);

}  // namespace cloister::images
