// SPDX-License-Identifier: Apache-2.0
#include "images/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "images/names.h"
#include "images/remove_tree.h"
#include "linux/paths.h"
#include "model/escalation.h"

namespace cloister::images {
namespace {

constexpr int64_t kLastSecond = int64_t{1} << 33;
constexpr mode_t kNewDirectory = 0755;
constexpr size_t kShown = 200;

std::unexpected<Error> refuse(std::string_view path, std::string_view why) {
  return fail(Code::kInvalid, shown(path) + ": " + std::string(why));
}

std::unexpected<Error> failAt(std::string_view path) {
  return failErrno(shown(path));
}

std::string joined(const std::vector<std::string>& parts, size_t length) {
  std::string path;
  for (size_t i = 0; i < length; ++i)
    path.append(i == 0 ? "" : "/").append(parts[i]);
  return path;
}

bool sameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The number of directories from `root` to `directory`; more than kMaxDepth if deeper.
Result<size_t> depthOf(int root, int directory) {
  struct stat top{};
  struct stat here{};
  if (::fstat(root, &top) != 0 || ::fstat(directory, &here) != 0) return failErrno("fstat");
  Fd at;
  size_t depth = 0;
  for (; depth <= kMaxDepth && !sameFile(top, here); ++depth) {
    at = Fd(::openat(at ? at.get() : directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at || ::fstat(at.get(), &here) != 0) return failErrno("opening a directory above");
  }
  return depth;
}

void setTime(int parent, const char* name, int64_t modified) {
  const timespec times[2] = {{0, UTIME_OMIT}, {std::clamp<int64_t>(modified, 0, kLastSecond), 0}};
  // Ignores errors: no promise depends on these times.
  std::ignore = ::utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace

mode_t fileMode(mode_t mode) {
  return (mode & 0755) | S_IRUSR;
}

mode_t directoryMode(mode_t mode) {
  return (mode & 0755) | S_IRWXU;
}

std::string shown(std::string_view path) {
  return "\"" + model::safeText(path, kShown) + "\"";
}

Result<Tree::Parts> Tree::partsOf(std::string_view path) const {
  if (path.size() > kMaxPath) {
    return refuse(path, "a name of more than " + std::to_string(kMaxPath) + " bytes");
  }
  if (path.contains('\0')) return refuse(path, "a NUL in the name");
  Parts parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse(path, "leads out of the image");
    if (part.size() > kMaxComponent) {
      return refuse(path, "a part of more than " + std::to_string(kMaxComponent) + " bytes");
    }
    parts.emplace_back(part);
  }
  if (parts.size() > kMaxDepth) {
    return refuse(path, "more than " + std::to_string(kMaxDepth) + " directories deep");
  }
  return parts;
}

Result<> Tree::count(std::string_view path) {
  if (++entries_ <= bounds_.files) return {};
  return fail(Code::kTooLarge, shown(path) + ": the image has more than " +
                                   std::to_string(bounds_.files) +
                                   " entries; see images.max_files in the configuration");
}

Result<Fd> Tree::open(const Parts& parts, size_t length) const {
  if (length == 0) {
    Fd top(::openat(root_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return top ? Result<Fd>(std::move(top)) : failErrno("opening the image");
  }
  const std::string path = joined(parts, length);
  Fd found = linux::findInRoot(root_, path, O_DIRECTORY, false);
  if (found) return found;
  if (errno == ELOOP) {
    found = linux::findInRoot(root_, path, O_DIRECTORY);
    if (found && TRY(depthOf(root_, found.get())) >= kMaxDepth) {
      return refuse(path, "more than " + std::to_string(kMaxDepth) + " directories deep");
    }
    if (found) return found;
  }
  if (errno == ENOENT) return Fd();
  if (errno == ENOTDIR) return refuse(path, "is no directory, and an entry lies in it");
  return failAt(path);
}

Result<Fd> Tree::make(const Parts& parts, size_t length) {
  Fd there = TRY(open(parts, length));
  if (there) return there;
  Fd parent = TRY(open(parts, 0));
  for (size_t i = 1; i <= length; ++i) {
    Fd next = TRY(open(parts, i));
    if (!next) {
      const std::string path = joined(parts, i);
      TRY(count(path));
      if (::mkdirat(parent.get(), parts[i - 1].c_str(), kNewDirectory) != 0) {
        if (errno == EEXIST) return refuse(path, "is a link to nothing, and an entry lies in it");
        return failAt(path);
      }
      struct stat status{};
      if (::fstat(parent.get(), &status) != 0) return failAt(path);
      written_.emplace(status.st_ino, parts[i - 1]);
      next = TRY(open(parts, i));
      if (!next) return refuse(path, "cannot be made");
    }
    parent = std::move(next);
  }
  return parent;
}

Result<Tree::Place> Tree::find(const Parts& parts, bool make_parents) {
  Place place;
  place.name = parts.back();
  const size_t above = parts.size() - 1;
  place.parent = make_parents ? TRY(make(parts, above)) : TRY(open(parts, above));
  if (!place.parent) return place;
  struct stat status{};
  if (::fstat(place.parent.get(), &status) != 0) return failAt(place.name);
  place.inode = status.st_ino;
  return place;
}

// Counts the entry, and makes its name free.
Result<Tree::Place> Tree::clear(std::string_view path) {
  TRY(count(path));
  const Parts parts = TRY(partsOf(path));
  if (parts.empty()) return refuse(path, "is the image itself, which must be a directory");
  Place place = TRY(find(parts, true));
  TRY(removeTree(place.parent.get(), place.name));
  return place;
}

Result<> Tree::directory(std::string_view path, mode_t mode) {
  TRY(count(path));
  const Parts parts = TRY(partsOf(path));
  if (parts.empty()) return {};
  const Place place = TRY(find(parts, true));
  const int parent = place.parent.get();
  struct stat status{};
  const bool exists = ::fstatat(parent, place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists || !S_ISDIR(status.st_mode)) {
    if (exists) TRY(removeTree(parent, place.name));
    if (::mkdirat(parent, place.name.c_str(), kNewDirectory) != 0) return failAt(path);
  }
  const Fd made(
      ::openat(parent, place.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), directoryMode(mode)) != 0) return failAt(path);
  wrote(place);
  return {};
}

Result<> Tree::write(int file, std::string_view path, uint64_t size, Content& content) {
  for (;;) {
    const std::optional<Content::Piece> piece = TRY(content.next());
    if (!piece) break;
    if (piece->at > size || piece->bytes.size() > size - piece->at) {
      return refuse(path, "has more content than it says");
    }
    for (size_t done = 0; done < piece->bytes.size();) {
      const ssize_t n = ::pwrite(file, piece->bytes.data() + done, piece->bytes.size() - done,
                                 static_cast<off_t>(piece->at + done));
      if (n < 0 && errno != EINTR) return failAt(path);
      if (n > 0) done += static_cast<size_t>(n);
    }
  }
  // The rest of the file is a hole.
  if (::ftruncate(file, static_cast<off_t>(size)) != 0) return failAt(path);
  return {};
}

Result<> Tree::file(std::string_view path, const Attributes& attributes, uint64_t size,
                    Content& content) {
  if (size > bounds_.bytes - bytes_) {
    return fail(Code::kTooLarge, shown(path) + ": the files of the image are larger than " +
                                     std::to_string(bounds_.bytes >> 20) +
                                     " MiB; see images.max_mb in the configuration");
  }
  bytes_ += size;
  const Place place = TRY(clear(path));
  const int parent = place.parent.get();
  const Fd file(::openat(parent, place.name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return failAt(path);
  TRY(write(file.get(), path, size, content));
  if (::fchmod(file.get(), fileMode(attributes.mode)) != 0) return failAt(path);
  setTime(parent, place.name.c_str(), attributes.modified);
  wrote(place);
  return {};
}

Result<> Tree::symbolicLink(std::string_view path, const std::string& target, int64_t modified) {
  if (target.empty() || target.size() > kMaxPath) return refuse(path, "a link to no possible name");
  const Place place = TRY(clear(path));
  if (::symlinkat(target.c_str(), place.parent.get(), place.name.c_str()) != 0) return failAt(path);
  setTime(place.parent.get(), place.name.c_str(), modified);
  wrote(place);
  return {};
}

Result<> Tree::hardLink(std::string_view path, std::string_view target) {
  const Parts from = TRY(partsOf(target));
  const Parts to = TRY(partsOf(path));
  if (from.empty() || to.empty()) return refuse(path, "a hard link to a directory");
  const Place old = TRY(find(from, false));
  if (old.parent && old.name == to.back()) {
    const Place same = TRY(find(to, true));
    if (same.inode == old.inode) return count(path);  // already the same file
  }
  struct stat status{};
  const bool there = old.parent && ::fstatat(old.parent.get(), old.name.c_str(), &status,
                                             AT_SYMLINK_NOFOLLOW) == 0;
  if (!there || S_ISDIR(status.st_mode)) {
    return refuse(path, "a hard link to " + shown(target) + ", which is no file of the image");
  }
  const Place place = TRY(clear(path));
  if (::linkat(old.parent.get(), old.name.c_str(), place.parent.get(), place.name.c_str(), 0) !=
      0) {
    return failAt(path);
  }
  wrote(place);
  return {};
}

Result<> Tree::nothing(std::string_view path) {
  TRY(count(path));
  const Parts parts = TRY(partsOf(path));
  if (parts.empty()) return {};
  const Place place = TRY(find(parts, false));
  return place.parent ? removeTree(place.parent.get(), place.name) : Result<>();
}

Result<> Tree::removeEarlier(int parent, const std::string& name, bool& left, size_t depth) {
  struct stat above{};
  struct stat status{};
  if (::fstat(parent, &above) != 0) return failAt(name);
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Result<>() : failAt(name);
  }
  bool keep = written_.contains(std::pair(above.st_ino, name));
  if (S_ISDIR(status.st_mode)) {
    const Fd directory(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return failAt(name);
    TRY(emptyEarlier(directory.get(), keep, depth + 1));
  }
  left = left || keep;
  if (keep) return {};
  const int flags = S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0;
  return ::unlinkat(parent, name.c_str(), flags) == 0 ? Result<>() : failAt(name);
}

Result<> Tree::emptyEarlier(int directory, bool& left, size_t depth) {
  if (depth > kMaxDepth) return fail(Code::kInvalid, "a whiteout of too deep a directory");
  for (const std::string& name : TRY(namesIn(directory)))
    TRY(removeEarlier(directory, name, left, depth));
  return {};
}

Result<> Tree::whiteout(std::string_view path) {
  TRY(count(path));
  const Parts parts = TRY(partsOf(path));
  if (parts.empty()) return refuse(path, "a whiteout of nothing");
  const Place place = TRY(find(parts, false));
  bool left = false;
  return place.parent ? removeEarlier(place.parent.get(), place.name, left, 0) : Result<>();
}

Result<> Tree::opaque(std::string_view path) {
  TRY(count(path));
  const Parts parts = TRY(partsOf(path));
  const Fd directory = TRY(open(parts, parts.size()));
  bool left = false;
  return directory ? emptyEarlier(directory.get(), left, 0) : Result<>();
}

}  // namespace cloister::images
