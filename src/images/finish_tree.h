// SPDX-License-Identifier: Apache-2.0
// The last walk over a tree that the confined process has made. The process's parent does the walk
// and trusts no part of the tree. Afterwards any tree is fit to be an image.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "images/bounds.h"

namespace cloister::images {

struct TreeSize {
  uint64_t files = 0;  // files, directories and links, without the root itself
  uint64_t bytes = 0;  // of the files
};

// Finishes the tree in the open directory. The mount points of sandboxes become empty directories
// (proc, dev, tmp, workspace, run), and etc exists. Devices, FIFOs and sockets are removed. All
// other entries belong to this process's user and group, have no set-user-ID or similar bits and no
// extended attributes, and are writable by no other user. All directories have the same time, so
// that equal trees are equal. kTooLarge over a bound, kInvalid for a file with a link from outside.
Result<TreeSize> finishTree(int root, const Bounds& bounds);

}  // namespace cloister::images
