// SPDX-License-Identifier: Apache-2.0
// Importing: an archive or a directory becomes an image of the store.
//
// The input is hostile, so a confined child of this process (confine.h) reads the input. The child
// makes a tree (unpack.h) in a directory beside the store's. This process trusts neither the tree
// nor the child's messages. This process walks the tree, bounds its size, makes the tree harmless
// (finish_tree.h) and names the tree by its content.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "images/bounds.h"
#include "images/store.h"

namespace cloister::images {

struct ImportOptions {
  std::string name;
  std::string path;        // of an archive or a directory
  std::string title = {};  // of the input in errors; "": the path
  bool replace = false;
  bool squashfs = true;  // also for virtual machines, where mksquashfs is installed
  Bounds bounds = {};
  std::optional<model::VerifiedImage> verified = {};  // for the record
  int cancel = -1;                                    // a descriptor: the import ends when readable
  std::function<void(const std::string&)> progress = [](const std::string&) {
  };  // ten times a second
};

struct Imported {
  Found found;
  std::vector<std::string> notes;  // descriptions of the omitted parts
};

// kConflict if the name is taken and `replace` is false; kInvalid for an invalid name.
Result<> checkNewName(const Store& store, const std::string& name, bool replace);

// Has no time limit. Leaves nothing behind unless it succeeds. The caller has a single thread.
Result<Imported> importImage(Store& store, const ImportOptions& options);

// The digest of an image's current tree.
Result<std::string> computeDigest(const Found& found);

}  // namespace cloister::images
