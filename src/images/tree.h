// SPDX-License-Identifier: Apache-2.0
// Tree: a root file system that is put together from the entries of hostile archives.
//
// Every name is resolved inside the root (openat2(2) RESOLVE_IN_ROOT). An entry may lie behind a
// link of the tree, as bin/sh behind bin -> usr/bin, and no link, `..` or absolute name leads out.
// Every new entry belongs to the importer, has no set-user-ID and similar bits, and is writable by
// nobody else. The rules for layers are those of the OCI image specification: an entry replaces an
// existing file of its name, unless both are directories; whiteouts remove only the entries of
// earlier layers.
//
// Errors name the entry. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "images/bounds.h"

namespace cloister::images {

// The bytes of a file, piece by piece.
class Content {
 public:
  struct Piece {
    std::string_view bytes;
    uint64_t at = 0;  // in the file; gaps are holes
  };
  virtual ~Content() = default;
  virtual Result<std::optional<Piece>> next() = 0;
};

struct Attributes {
  mode_t mode = 0;
  int64_t modified = 0;  // seconds since the epoch
};

class Tree {
 public:
  // `root` is a directory of ours, which must outlive this object.
  Tree(int root, Bounds bounds) : root_(root), bounds_(bounds) {}

  // From now on all present entries belong to earlier layers.
  void beginLayer() { written_.clear(); }

  Result<> directory(std::string_view path, mode_t mode);
  Result<> file(std::string_view path, const Attributes& attributes, uint64_t size,
                Content& content);
  Result<> symbolicLink(std::string_view path, const std::string& target, int64_t modified);
  // `target` is a path in the tree too.
  Result<> hardLink(std::string_view path, std::string_view target);
  // For omitted entries (devices, FIFOs, sockets): only removes the entry in the same place.
  Result<> nothing(std::string_view path);

  // `.wh.NAME` as `path` without the prefix, and `.wh..wh..opq` as its directory.
  Result<> whiteout(std::string_view path);
  Result<> opaque(std::string_view path);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t entries() const { return entries_; }

 private:
  using Parts = std::vector<std::string>;
  // The place of an entry: its directory, as O_PATH, and its name there.
  struct Place {
    Fd parent;
    ino_t inode = 0;  // of the parent
    std::string name;
  };

  [[nodiscard]] Result<Parts> partsOf(std::string_view path) const;
  Result<> count(std::string_view path);
  [[nodiscard]] Result<Fd> open(const Parts& parts, size_t length) const;
  Result<Fd> make(const Parts& parts, size_t length);
  // Finds the place of a path; `make`: makes the directories above. Without a parent: does not
  // exist.
  Result<Place> find(const Parts& parts, bool make);
  Result<Place> clear(std::string_view path);
  Result<> removeEarlier(int parent, const std::string& name, bool& left, size_t depth);
  Result<> emptyEarlier(int directory, bool& left, size_t depth);
  Result<> write(int file, std::string_view path, uint64_t size, Content& content);
  void wrote(const Place& place) { written_.emplace(place.inode, place.name); }

  const int root_;
  const Bounds bounds_;
  uint64_t bytes_ = 0;
  uint64_t entries_ = 0;
  // This layer's entries, by directory and name.
  std::set<std::pair<ino_t, std::string>, std::less<>> written_;
};

// The mode of an entry: the read and execute bits of others, and all permissions for us.
mode_t fileMode(mode_t mode);
mode_t directoryMode(mode_t mode);

// A name of an entry for a message.
std::string shown(std::string_view path);

}  // namespace cloister::images
