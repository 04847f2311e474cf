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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"
#include "linux/file_hashes.h"

namespace cloister::linux {

// Maximum depth of a tree with a digest.
inline constexpr int kMaxTreeDepth = 64;

// A walk's findings besides the digest. Times are wall-clock nanoseconds.
struct TreeSeen {
  static constexpr size_t kMostNamed = 16;

  uint64_t files = 0;       // regular files
  uint64_t files_read = 0;  // files whose hash was not cached
  uint64_t bytes_read = 0;
  int64_t newest = 0;  // the newest change (ctime) of anything in the tree
  std::string newest_path;
  // Known before with another stamp, or changed since TreeWalk::since: at most kMostNamed.
  std::vector<std::string> changed;
};

// How a walk is made.
struct TreeWalk {
  // Number of threads that hash files besides the walk, which hashes while waiting.
  unsigned threads = 0;
  // Changes at this time or later are listed in TreeSeen::changed; 0: since the walk began.
  int64_t since = 0;
  // The path of a directory to skip; "" for none.
  std::string closed = {};
};

// A walk. Hashes the manifest on the fly and some files later, so that the kernel reads the files
// ahead: an uncached read takes far longer than its hash. Not thread-safe.
class TreeDigest {
 public:
  enum class Of : uint8_t {
    kEverything,      // an unreadable file is an error
    kWhatOthersRead,  // a file or directory unreadable by others is "-", without its content
  };
  // The kernel stamps changes by a clock that ticks every 10 ms at most. A younger change at the
  // beginning of a walk may be followed by another change under the same stamp.
  static constexpr int64_t kSettled = 20'000'000;  // nanoseconds

  // `old_cache` is what cache() was of an earlier walk: files with the same inode, size, mtime and
  // ctime are not read again. "" for none.
  explicit TreeDigest(Of of, std::string old_cache = {}, TreeWalk how = {});
  TreeDigest(const TreeDigest&) = delete;
  TreeDigest& operator=(const TreeDigest&) = delete;
  ~TreeDigest();

  // Called after each file read, when cache() includes the file.
  void onRead(std::function<void()> call) { on_read_ = std::move(call); }

  // Adds the content of directory `root`/`name`, with paths that begin with `name`.
  Result<> add(const std::string& root, const std::string& name);
  // Adds the content of the directory open at `root`, with relative paths.
  Result<> addAll(int root);

  // "sha256:…" of all content added so far.
  [[nodiscard]] std::string digest() const { return "sha256:" + manifest_.hex(); }
  // The cache for the next walk, without files that changed during this walk.
  [[nodiscard]] const std::string& cache() const { return new_; }
  [[nodiscard]] const TreeSeen& seen() const { return seen_; }
  [[nodiscard]] int64_t begun() const { return begun_; }
  // Nothing changed since shortly before the walk began, as far as the walk saw.
  [[nodiscard]] bool settled() const { return seen_.newest < begun_ - kSettled; }

 private:
  struct Line {
    char type;
    mode_t mode;
    int64_t size;
    std::string content;
    std::string path;
    std::shared_ptr<FileHashes::File> unread;  // of a file whose content is not known yet
    std::string stamp;                         // of a file; "" if changed during reading
    bool young = false;                        // may change again under the same stamp
  };

  Result<> directory(int fd, const std::string& path, int depth);
  Result<> entry(int parent, const char* name, const std::string& path, int depth);
  Result<bool> find(int parent, const char* name, std::string stamp, Line& line);
  std::string_view known(const std::string& path);
  bool noteChange(const struct stat& status, const std::string& path);
  void nameChanged(const std::string& path);
  Result<> put(Line line);
  Result<> settleFirst();
  Result<> settleAll();
  Result<> readFile(Line& line);
  void keep(const Line& line);
  static uint64_t ahead(const Line& line);

  const Of of_;
  const std::string old_;
  const int64_t begun_;
  const int64_t since_;
  const std::string closed_;
  std::function<void()> on_read_;
  std::deque<Line> lines_;  // not in the manifest yet: the first is not read, nor may be others
  size_t files_ahead_ = 0;
  uint64_t bytes_ahead_ = 0;
  size_t next_old_ = 0;  // expected position of the walk's next line
  // Path → start of its line, built when a line is not at the expected position.
  std::optional<std::unordered_map<std::string_view, size_t>> index_;
  TreeSeen seen_;
  std::string new_;
  base::Sha256 manifest_;
  FileHashes hashes_;
};

// Identifies a file's content without reading: inode, size, mtime and ctime.
std::string stampOf(const struct stat& status);

}  // namespace cloister::linux
