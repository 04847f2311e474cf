// SPDX-License-Identifier: Apache-2.0
// The digest of an image: a hash of the contents that a sandbox of the image can see.
//
// The digest is computed by linux/tree_digest.h over the trees of programs. The digest covers the
// files that other users may read and sandboxes see (kLocalConfiguration in mount_plan.h).
//
// Hashing gigabytes takes long, so a cache keeps the SHA-256 of each file, keyed by inode, size,
// mtime and ctime. The cache also keeps the digest, keyed by a few indicative files. As long as
// these files stay unchanged, the cached digest is used at once and verified in the background.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::runtime {

// The directories of programs in `image_root` ("" = the host): /usr and directories not merged into
// /usr.
std::vector<std::string> imageTrees(const std::string& image_root);

// The result of reading an image.
struct ImageContent {
  std::string digest;      // "sha256:…"; "" where the image kept changing
  std::string key;         // imageKey() from before the reading
  int64_t changed_at = 0;  // time of the last change or later; wall-clock microseconds
  uint64_t files = 0;
  uint64_t files_read = 0;  // files whose hash was not cached
  uint64_t bytes_read = 0;
  std::string newest = {};  // path of the last change
  // Paths of some files changed since an earlier digest, or during the reading.
  std::vector<std::string> changed;
};

// How an image is read.
struct ImageReading {
  unsigned threads = 0;  // hashing threads besides the walk
  // Changes at this time (wall-clock microseconds) or later are listed; 0: since the reading began.
  int64_t since = 0;
  // Limits of repeated readings while the image changes: number of walks, and the first pause,
  // which doubles. A few seconds in total.
  int most_walks = 8;
  std::chrono::milliseconds first_pause{50};
  std::function<void()> before_walk = {};  // for tests
};

// Reads the trees with the help of the cache, which is then written anew, until nothing changes
// any more. `cache` is a path without extension; "" for none.
Result<ImageContent> readImage(const std::string& image_root, const std::string& cache,
                               const ImageReading& how = {});

// The path of the cache for `image_root` (own_cache.h).
std::string imageCachePath(const std::string& image_root);

// A short text that changes when packages are installed or removed: status of dpkg's database and
// of the directories of programs and modules. Takes microseconds.
std::string imageKey(const std::string& image_root);

// Identifies the tree and its file system.
std::string imagePlace(const std::string& image_root);

// The cached result of the last reading: digest, key, `changed_at` and `files`. The digest is ""
// without a cached result for this key. All accounts may read root's cache.
ImageContent keptImage(const std::string& image_root, const std::string& key);

}  // namespace cloister::runtime
