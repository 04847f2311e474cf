// SPDX-License-Identifier: Apache-2.0
// ImageState: what a node knows of the content of its own image. Made by the process runtime, told
// over the wire, shown by the API. Imported images have no such state: their content never changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/plan.h"

namespace cloister::model {

// In `weakened` of what ran on an image whose digest was not known.
inline constexpr char kWeakerUnverified[] = "image not verified yet";

struct ImageState {
  static constexpr size_t kMostChanged = 16;

  std::string place;     // which tree of which file system this is, as a hash
  std::string identity;  // another when the place is, or when packages were installed or removed
  std::string digest;    // "sha256:…" of the content; "" while it is not verified
  // Times by the node's clock, in microseconds. To `changed_at` or later it did not change, with a
  // digest; all sandboxes that are given out now were made after `since`.
  int64_t changed_at = 0;
  int64_t since = 0;
  int64_t clock_ahead = 0;           // of whoever was told this: at most so far ahead of the node's
  uint64_t files = 0;                // regular files, as last read
  uint64_t files_read = 0;           // of those, the ones that had to be read for the digest
  std::string newest = {};           // what changed last: a path
  std::vector<std::string> changed;  // files that changed since an earlier digest, or while it
                                     // was computed: some paths, at most kMostChanged
  std::string problem;               // why there is no digest, where reading it failed
  bool reading = false;              // now

  friend bool operator==(const ImageState&, const ImageState&) = default;
};

// The line of `cloister doctor`.
Finding findingOf(const ImageState& state);

}  // namespace cloister::model
