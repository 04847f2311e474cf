// SPDX-License-Identifier: Apache-2.0
// One layer of an image, or a tree in a tar, applied to a tree.
#pragma once

#include "base/result.h"
#include "images/archive.h"
#include "images/tree.h"

namespace cloister::images {

struct LayerResult {
  uint64_t left_out = 0;  // devices, FIFOs and sockets
};

// Every entry of `tar`, a tar that is not compressed, and what follows its end too, so that all of
// it is read. With `whiteouts` names that begin with .wh. remove what earlier layers brought.
Result<LayerResult> applyLayer(Source& tar, Tree& tree, bool whiteouts);

// What is in the open directory, of its own file system only.
Result<LayerResult> copyTree(int directory, Tree& tree);

}  // namespace cloister::images
