// SPDX-License-Identifier: Apache-2.0
// FileHashes: the SHA-256 of files' contents. Threads begin files in the order in which the files
// were added; take() hashes a file that no thread has begun. The walk of a tree (tree_digest.h)
// adds files before it needs their hashes.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// Bytes of a file read ahead of its hash.
inline constexpr int64_t kFileAhead = int64_t{4} << 20;

// For a single caller; the threads are an implementation detail and inherit its priority.
class FileHashes {
 public:
  struct File;

  // Without threads the caller computes each hash itself, in take().
  explicit FileHashes(unsigned threads);
  FileHashes(const FileHashes&) = delete;
  FileHashes& operator=(const FileHashes&) = delete;
  ~FileHashes();

  // Takes `fd` over and has the kernel read the file's first megabytes ahead. `path` is for errors.
  std::shared_ptr<File> add(Fd fd, std::string path);

  struct Hashed {
    std::string sha256;  // hex
    std::string stamp;   // stampOf() the file after reading
    uint64_t bytes = 0;
  };
  // Waits for the hash of an added file; computes the hash if no thread has begun.
  Result<Hashed> take(File& file);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<File>> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cloister::linux
