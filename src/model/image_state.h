// SPDX-License-Identifier: Apache-2.0
// ImageState: a node's knowledge of the content of its own image. Made by the process runtime, sent
// over the wire, shown by the API. Imported images have no such state: their content never changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/plan.h"

namespace cloister::model {

// In `weakened` of results for an image without a known digest.
inline constexpr char kWeakerUnverified[] = "image not verified yet";

struct ImageState {
  static constexpr size_t kMostChanged = 16;

  std::string place;     // hash of the tree and its file system
  std::string identity;  // another when the place is, or when packages were installed or removed
  std::string digest;    // "sha256:…" of the content; "" until verified
  // Times by the node's clock, in microseconds. With a digest, the image did not change at
  // `changed_at` or later; all sandboxes now handed out were made after `since`.
  int64_t changed_at = 0;
  int64_t since = 0;
  int64_t clock_ahead = 0;           // maximum by which the receiver's clock is ahead of the node's
  uint64_t files = 0;                // regular files, as last read
  uint64_t files_read = 0;           // files read for the digest
  std::string newest = {};           // path of the last change
  std::vector<std::string> changed;  // files changed since an earlier digest, or during the
                                     // reading: some paths, at most kMostChanged
  std::string problem;               // why there is no digest, if the reading failed
  bool reading = false;              // now

  friend bool operator==(const ImageState&, const ImageState&) = default;
};

// The line of `cloister doctor`.
Finding findingOf(const ImageState& state);

}  // namespace cloister::model
