// SPDX-License-Identifier: Apache-2.0
// Importing: an archive or a directory becomes an image of the store.
//
// What is read is hostile, so a child of this process reads it, confined (confine.h); it makes a
// tree (unpack.h) in a directory beside the store's. This process believes nothing of what the
// child made or says: it walks the tree, bounds it, makes it harmless (finish_tree.h) and names it
// by its content.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "images/bounds.h"
#include "images/store.h"

namespace cloister::images {

struct ImportOptions {
  std::string name;
  std::string path;  // of an archive or a directory
  bool replace = false;
  Bounds bounds = {};
  int cancel = -1;  // a descriptor: the import ends when readable
  std::function<void(const std::string&)> progress = [](const std::string&) {
  };  // ten times a second
};

struct Imported {
  Found found;
  std::vector<std::string> notes;  // descriptions of the omitted parts
};

// Has no time limit. Leaves nothing behind unless it succeeds. The caller has a single thread.
Result<Imported> importImage(Store& store, const ImportOptions& options);

// The digest of an image's current tree.
Result<std::string> computeDigest(const Found& found);

}  // namespace cloister::images
