// SPDX-License-Identifier: Apache-2.0
// The store of images: the operator's imported images, on disk, by name.
//
//   DIR/names/NAME             the Image as JSON; replaced at once, by rename
//   DIR/sha256-HEX/root/       the tree with that digest; names may share it
//   DIR/sha256-HEX/root.squashfs   the same for virtual machines, where mksquashfs is installed
//   DIR/.tmp-…                 unfinished imports, and trees that are being removed
//
// A tree is never changed. A user of a tree holds a shared flock(2) on DIR/sha256-HEX. The tree is
// removed only under the exclusive flock, and no caller waits for the exclusive flock. A writer to
// DIR holds a flock on DIR itself. Any user with read access to DIR may list and use the images. No
// function here keeps state in memory, so any threads and processes may call the functions at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/image.h"

namespace cloister::images {

struct Found {
  model::Image image;
  std::string root;      // path of its root directory
  std::string squashfs;  // path of its squashfs; "" if none
};

// A name whose image cannot be used.
struct Broken {
  std::string name;
  std::string why;
};

struct Listing {
  std::vector<Found> images;   // by name
  std::vector<Broken> broken;  // the same
};

// An image protected from removal for the lifetime of this object, or of any copy of its
// descriptor.
struct Used {
  Found found;
  Fd hold;
};

// An import under way: a directory removed with this object unless placed.
class Unfinished {
 public:
  Unfinished(std::string path, Fd directory) : path_(std::move(path)), fd_(std::move(directory)) {}
  Unfinished(Unfinished&&) noexcept = default;
  Unfinished& operator=(Unfinished&&) = delete;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int directory() const { return fd_.get(); }

 private:
  std::string path_;
  Fd fd_;  // locked
};

// The store's directory: `configured` (node.images), else /var/lib/cloister-images for root and a
// directory in the user's own data for others; "" if unknown. Outside the state directory, which is
// the control plane's: the control plane must not choose the content of sandboxes.
std::string storeDir(const std::string& configured);

class Store {
 public:
  // `directory` need not exist: then the store is empty.
  explicit Store(std::string directory) : directory_(std::move(directory)) {}

  [[nodiscard]] const std::string& directory() const { return directory_; }

  [[nodiscard]] Result<Listing> list() const;
  // kInvalid for an invalid name, kNotFound with the remedy, kInternal for a broken record.
  [[nodiscard]] Result<Found> find(std::string_view name) const;
  // The directory of its tree, open and with the shared lock, which ends with the last copy of the
  // descriptor. kNotFound after a removal.
  [[nodiscard]] Result<Fd> hold(const model::Image& image) const;
  // Finds and holds in a single step, so that the found image is the held image.
  [[nodiscard]] Result<Used> use(std::string_view name) const;

  // kConflict while a tree with a single name is in use; otherwise the tree is removed with its
  // last name.
  Result<> remove(std::string_view name);

  // For imports. Makes the directory, and removes leftovers of earlier imports and replaced names.
  Result<Unfinished> begin();
  // Makes the finished tree `root` in `unfinished` the tree of `image.name`; kConflict if the name
  // is taken and `replace` is false. All data is on the disk first.
  Result<Found> place(Unfinished unfinished, const model::Image& image, bool replace);
  // True if a tree has this digest. Sets `squashfs` if the tree has a squashfs.
  [[nodiscard]] bool has(const std::string& digest, bool& squashfs) const;

  [[nodiscard]] std::string treePath(const std::string& digest) const;

 private:
  [[nodiscard]] std::string namePath(std::string_view name) const;
  [[nodiscard]] Result<Fd> lock() const;
  [[nodiscard]] Result<model::Image> read(const std::string& name) const;
  Result<> adopt(Unfinished& unfinished, const model::Image& image);
  [[nodiscard]] Result<> name(const model::Image& image) const;
  Result<> collect();
  void sweep();

  std::string directory_;
};

}  // namespace cloister::images
