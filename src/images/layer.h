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

// Applies all entries of the uncompressed `tar`, and reads on to the end of the stream. With
// `whiteouts`, names that begin with .wh. remove entries of earlier layers.
Result<LayerResult> applyLayer(Source& tar, Tree& tree, bool whiteouts);

// Copies the content of the open directory, of its own file system only.
Result<LayerResult> copyTree(int directory, Tree& tree);

}  // namespace cloister::images
