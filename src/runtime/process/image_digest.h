// SPDX-License-Identifier: Apache-2.0
// The digest of an image: what a sandbox can see of it, by content.
//
// It is that of linux/tree_digest.h over the trees that programs are in, of what others may read.
//
// Hashing gigabytes takes long, so the SHA-256 of each file is kept in a cache, keyed by inode,
// size, mtime and ctime, and beside it the digest with a key made of a few telling files: as long
// as these stay, the digest is taken as it is, and verified in the background.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::runtime {

// Where `image_root` ("" = the host) keeps programs: /usr and what is not merged into it.
std::vector<std::string> imageTrees(const std::string& image_root);

// "sha256:…" of the trees, computed now with the help of the cache, which is then written anew.
// `cache` is a path without extension; "" for none.
Result<std::string> computeImageDigest(const std::string& image_root, const std::string& cache);

// The path of the cache for `image_root`: below /var/cache/cloister, or the user's own.
std::string imageCachePath(const std::string& image_root);

// A short text that changes when packages are installed or removed: status of dpkg's database and
// of the directories that programs and modules come into. Takes microseconds.
std::string imageKey(const std::string& image_root);

// The digest that was stored with this key; "" if there is none. Root's cache serves everybody.
std::string cachedImageDigest(const std::string& image_root, const std::string& key);

// computeImageDigest() in a process of its own, at lowest priority when `idle`. It dies with the
// caller's thread, or with the job.
class ImageDigestJob {
 public:
  static Result<ImageDigestJob> start(const std::string& image_root, bool idle);
  ImageDigestJob(ImageDigestJob&&) noexcept = default;
  ImageDigestJob& operator=(ImageDigestJob&&) = delete;
  ImageDigestJob(const ImageDigestJob&) = delete;
  ImageDigestJob& operator=(const ImageDigestJob&) = delete;
  ~ImageDigestJob();

  // What comes here until end of file is the result, for parse().
  [[nodiscard]] int output() const { return output_.get(); }
  static Result<std::string> parse(const std::string& text);

 private:
  ImageDigestJob(Fd output, Fd pidfd) : output_(std::move(output)), pidfd_(std::move(pidfd)) {}
  Fd output_;
  Fd pidfd_;
};

}  // namespace cloister::runtime
