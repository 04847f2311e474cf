// SPDX-License-Identifier: Apache-2.0
#include "images/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "images/names.h"
#include "images/remove_tree.h"
#include "images/tree.h"
#include "linux/tree_digest.h"

namespace cloister::images {
namespace {

constexpr char kNames[] = "names";
constexpr char kRoot[] = "root";
constexpr char kSquashfs[] = "root.squashfs";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kTree = "sha256-";
constexpr char kRecord[] = ".record";
constexpr size_t kMaxRecord = size_t{256} << 10;

Fd openDirectory(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

bool take(int directory, int how) {
  int taken = -1;
  do {
    taken = ::flock(directory, how | LOCK_NB);
  } while (taken != 0 && errno == EINTR);
  return taken == 0;
}

Result<> syncDirectory(const std::string& path) {
  const Fd fd = openDirectory(path);
  if (fd && base::syncFile(fd.get()) == 0) return {};
  return failErrno("syncing " + path);
}

// True if the open file still has this path.
bool isStillAt(int fd, const std::string& path) {
  struct stat open{};
  struct stat named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

std::unexpected<Error> noImage(std::string_view name) {
  return fail(Code::kNotFound, "no image " + shown(name) +
                                   "; `cloister image list --local` lists the images of this "
                                   "machine, and `cloister image import NAME ARCHIVE` makes one");
}

// Removes the tree at `path`: from now on no process can find the tree. A process in use of the
// tree keeps the files until a later sweep.
Result<> discard(const std::string& directory, const std::string& path) {
  std::string away = directory + "/" + std::string(kTemporary) + "XXXXXX";
  if (::mkdtemp(away.data()) == nullptr) return failErrno("making a directory in " + directory);
  // Renames over the empty directory: the lock moves along, so that a sweep notices users.
  if (::rename(path.c_str(), away.c_str()) != 0) return failErrno("moving " + path);
  const Fd tree = openDirectory(away);
  return tree && take(tree.get(), LOCK_EX) ? removeTree(AT_FDCWD, away) : Result<>();
}

// True if the tree still has the digest in its name.
bool isIntact(const std::string& root, const std::string& digest) {
  const Fd fd = openDirectory(root);
  linux::TreeDigest now(linux::TreeDigest::Of::kEverything);
  return fd && now.addAll(fd.get()) && now.digest() == digest;
}

}  // namespace

Unfinished::~Unfinished() {
  // The next import sweeps a tree that cannot be removed now.
  if (fd_ && isStillAt(fd_.get(), path_)) std::ignore = removeTree(AT_FDCWD, path_);
}

std::string storeDir(const std::string& configured) {
  if (!configured.empty()) return configured;
  if (::geteuid() == 0) return "/var/lib/cloister-images";
  const char* data = ::getenv("XDG_DATA_HOME");
  const char* home = ::getenv("HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/cloister/images";
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/share/cloister/images";
  return {};
}

std::string Store::treePath(const std::string& digest) const {
  return directory_ + "/" + std::string(kTree) + digest.substr(digest.find(':') + 1);
}

std::string Store::namePath(std::string_view name) const {
  return directory_ + "/" + kNames + "/" + std::string(name);
}

Result<Fd> Store::lock() const {
  Fd fd = openDirectory(directory_);
  if (!fd) return failErrno("opening " + directory_);
  // Other processes hold the lock only for a rename and a removal.
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return failErrno("locking " + directory_);
  }
  return fd;
}

Result<model::Image> Store::read(const std::string& name) const {
  const std::string text = TRY(base::readFile(namePath(name), kMaxRecord));
  auto image = model::parseImage(text);
  if (!image) return std::unexpected(std::move(image).error().within(namePath(name)));
  if (image->name != name) return fail(Code::kInternal, namePath(name) + ": of another name");
  return image;
}

Result<Found> Store::find(std::string_view name) const {
  if (!model::validImageName(name)) {
    return fail(Code::kInvalid, shown(name) +
                                    " is no name of an image: 1 to 63 of a-z, 0-9, . _ "
                                    "and -, a letter or digit first, and not \"host\"");
  }
  if (!exists(namePath(name))) return noImage(name);
  auto image = read(std::string(name));
  if (!image) {
    return fail(Code::kInternal, image.error().message + "; import it again with --replace");
  }
  const std::string tree = treePath(image->digest);
  if (!exists(tree + "/" + kRoot)) {
    return fail(Code::kInternal, "image " + shown(name) + ": its tree " + tree +
                                     " is missing; import it again with --replace");
  }
  const std::string squashfs = tree + "/" + kSquashfs;
  Found found{*std::move(image), tree + "/" + kRoot, exists(squashfs) ? squashfs : ""};
  found.image.squashfs = !found.squashfs.empty();
  return found;
}

Result<Listing> Store::list() const {
  Listing listing;
  const Fd names = openDirectory(directory_ + "/" + kNames);
  if (!names && errno == ENOENT) return listing;
  if (!names) return failErrno("opening " + directory_ + "/" + kNames);
  for (const std::string& name : TRY(namesIn(names.get()))) {
    auto found = find(name);
    if (found) {
      listing.images.push_back(*std::move(found));
    } else if (found.error().code != Code::kInvalid && found.error().code != Code::kNotFound) {
      listing.broken.push_back({name, found.error().message});
    }
  }
  return listing;
}

Result<Fd> Store::hold(const model::Image& image) const {
  const std::string path = treePath(image.digest);
  Fd fd = openDirectory(path);
  if (!fd && errno == ENOENT) return noImage(image.name);
  if (!fd) return failErrno("opening " + path);
  if (!take(fd.get(), LOCK_SH) || !isStillAt(fd.get(), path)) return noImage(image.name);
  return fd;
}

Result<Used> Store::use(std::string_view name) const {
  Found found = TRY(find(name));
  auto held = hold(found.image);
  // Its name may have been given to another tree between the two.
  if (!held && held.error().code == Code::kNotFound) {
    found = TRY(find(name));
    held = hold(found.image);
  }
  if (!held) return std::unexpected(std::move(held).error());
  return Used{std::move(found), *std::move(held)};
}

bool Store::has(const std::string& digest, bool& squashfs) const {
  const std::string tree = treePath(digest);
  squashfs = exists(tree + "/" + kSquashfs);
  return exists(tree + "/" + kRoot);
}

// Removes unused trees without a name. The caller holds the lock. An unreadable name may refer to
// any tree, so none is removed then.
Result<> Store::collect() {
  std::set<std::string> named;
  for (const std::string& name : TRY(base::listDir(directory_ + "/" + kNames))) {
    if (!model::validImageName(name)) continue;
    const auto image = read(name);
    if (!image) return {};
    named.insert(treePath(image->digest));
  }
  for (const std::string& name : TRY(base::listDir(directory_))) {
    const std::string path = directory_ + "/" + name;
    if (!name.starts_with(kTree) || named.contains(path)) continue;
    Fd tree = openDirectory(path);
    if (!tree || !take(tree.get(), LOCK_EX)) continue;
    // A process that opens and locks the tree afterwards notices the removal.
    tree.reset();
    TRY(discard(directory_, path));
  }
  return {};
}

// Removes unfinished imports of ended processes. The caller holds the lock.
void Store::sweep() {
  const auto names = base::listDir(directory_);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (!name.starts_with(kTemporary)) continue;
    const Fd left = openDirectory(directory_ + "/" + name);
    // The next sweep retries a failed removal.
    if (left && take(left.get(), LOCK_EX))
      std::ignore = removeTree(AT_FDCWD, directory_ + "/" + name);
  }
}

Result<> Store::remove(std::string_view name) {
  if (!model::validImageName(name) || !exists(namePath(name))) return noImage(name);
  const Fd locked = TRY(lock());
  if (!exists(namePath(name))) return noImage(name);
  const auto image = read(std::string(name));
  const Listing all = TRY(list());
  const bool last = image && std::ranges::none_of(all.images, [&](const Found& each) {
                      return each.image.name != name && each.image.digest == image->digest;
                    });
  if (last) {
    const Fd tree = openDirectory(treePath(image->digest));
    if (tree && !take(tree.get(), LOCK_EX)) {
      return fail(Code::kConflict, "image " + shown(name) +
                                       " is in use by sandboxes; end them (`cloister session list` "
                                       "shows sessions), then remove it");
    }
  }
  if (::unlink(namePath(name).c_str()) != 0) return failErrno("removing " + namePath(name));
  TRY(syncDirectory(directory_ + "/" + kNames));
  return collect();
}

Result<Unfinished> Store::begin() {
  TRY(base::makeDirs(directory_));
  TRY(base::makeDirs(directory_ + "/" + kNames));
  const Fd locked = TRY(lock());
  sweep();
  TRY(collect());
  std::string path = directory_ + "/" + std::string(kTemporary) + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return failErrno("making a directory in " + directory_);
  Fd fd = openDirectory(path);
  // A directory with the set-group-ID bit passes its group on to new entries.
  if (!fd || ::fchown(fd.get(), ::geteuid(), ::getegid()) != 0 || ::fchmod(fd.get(), 0700) != 0 ||
      !take(fd.get(), LOCK_EX)) {
    return failErrno("preparing " + path);
  }
  return Unfinished(std::move(path), std::move(fd));
}

// The directory becomes the tree, unless the tree already exists. The caller holds the lock.
Result<> Store::adopt(Unfinished& unfinished, const model::Image& image) {
  const std::string tree = treePath(image.digest);
  const std::string squashfs = unfinished.path() + "/" + kSquashfs;
  if (exists(tree + "/" + kRoot) && !isIntact(tree + "/" + kRoot, image.digest)) {
    TRY(discard(directory_, tree));
  }
  if (exists(tree + "/" + kRoot)) {
    if (exists(squashfs) && ::rename(squashfs.c_str(), (tree + "/" + kSquashfs).c_str()) != 0) {
      return failErrno("renaming " + squashfs);
    }
    return {};
  }
  if (exists(tree)) TRY(discard(directory_, tree));  // a tree without its root
  if (::fchmod(unfinished.directory(), 0755) != 0) return failErrno("setting a mode");
  if (::rename(unfinished.path().c_str(), tree.c_str()) != 0)
    return failErrno("renaming to " + tree);
  ::flock(unfinished.directory(), LOCK_UN);
  return {};
}

// The caller holds the lock. Written elsewhere first, so that the directory of names has only
// complete names.
Result<> Store::name(const model::Image& image) const {
  const std::string record = directory_ + "/" + kRecord;
  TRY(base::writeFileAtomic(record, model::toJson(image) + "\n", 0644));
  if (::rename(record.c_str(), namePath(image.name).c_str()) != 0) {
    return failErrno("renaming to " + namePath(image.name));
  }
  return syncDirectory(directory_ + "/" + kNames);
}

Result<Found> Store::place(Unfinished unfinished, const model::Image& image, bool replace) {
  TRY(model::parseImage(model::toJson(image)));
  if (!base::syncsSkipped() && ::syncfs(unfinished.directory()) != 0) {
    return failErrno("syncing " + unfinished.path());
  }
  const Fd locked = TRY(lock());
  if (!replace && exists(namePath(image.name))) {
    return fail(Code::kConflict, "there is an image " + shown(image.name) +
                                     " already; --replace puts this one in its place");
  }
  TRY(adopt(unfinished, image));
  TRY(syncDirectory(treePath(image.digest)));
  TRY(syncDirectory(directory_));
  TRY(name(image));
  TRY(collect());
  return find(image.name);
}

}  // namespace cloister::images
