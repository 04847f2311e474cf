// SPDX-License-Identifier: Apache-2.0
// The digest of a tree of files, by content.
//
// SHA-256 over a manifest, one line for each file, directory and link in byte order of the names of
// each directory:
//   TYPE MODE SIZE CONTENT PATH\n
// TYPE f, d or l; MODE in octal; SIZE in bytes (0 for a directory); CONTENT the SHA-256 of a file,
// "-" for a directory, the SHA-256 of a link's target. Devices, sockets and FIFOs are left out.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// Directories within each other in a tree; one that has more has no digest.
inline constexpr int kMaxTreeDepth = 64;

// One walk: the manifest is hashed as it comes, some files behind the walk, so that the kernel
// reads them ahead: where nothing is cached a read takes far longer than its hash. Not thread-safe.
class TreeDigest {
 public:
  enum class Of : uint8_t {
    kEverything,      // what cannot be read is an error
    kWhatOthersRead,  // a file or directory that others may not read is "-" and not looked into
  };
  // `old_cache` is what cache() was of an earlier walk: files with the same inode, size, mtime and
  // ctime are not read again. "" for none.
  explicit TreeDigest(Of of, std::string_view old_cache = {});

  // Called after each file that was read, which cache() has then.
  void onRead(std::function<void()> call) { on_read_ = std::move(call); }

  // What is in the directory `root`/`name`, with paths that begin with `name`.
  Result<> add(const std::string& root, const std::string& name);
  // What is in the directory open at `root`, with paths from there.
  Result<> addAll(int root);

  // "sha256:…" of what was added so far.
  [[nodiscard]] std::string digest() const { return "sha256:" + manifest_.hex(); }
  [[nodiscard]] const std::string& cache() const { return new_; }

 private:
  struct Line {
    char type;
    mode_t mode;
    int64_t size;
    std::string content;
    std::string path;
    Fd unread;          // of a file whose content is not known yet
    bool uncached;      // nothing of that was in memory
    std::string stamp;  // of a file
  };

  Result<> directory(int fd, const std::string& path, int depth);
  Result<> entry(int parent, const char* name, const std::string& path, int depth);
  Result<> find(int parent, const char* name, std::string stamp, Line& line);
  Result<> put(Line line);
  Result<> settleFirst();
  Result<> settleAll();
  static uint64_t ahead(const Line& line);

  const Of of_;
  std::function<void()> on_read_;
  std::deque<Line> lines_;  // not in the manifest yet: the first is not read, nor may be others
  size_t files_ahead_ = 0;
  uint64_t bytes_ahead_ = 0;
  std::unordered_map<std::string, std::string> old_;
  std::string new_;
  base::Sha256 manifest_;
};

// What identifies a file's content without reading it: inode, size, mtime and ctime.
std::string stampOf(const struct stat& status);

}  // namespace cloister::linux
