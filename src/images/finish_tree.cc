// SPDX-License-Identifier: Apache-2.0
#include "images/finish_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "images/names.h"
#include "images/remove_tree.h"
#include "images/tree.h"

namespace cloister::images {
namespace {

// Sandboxes mount their own file systems there, so an image's content would never be visible.
constexpr const char* kMountPoints[] = {"dev", "proc", "run", "tmp", "workspace", "home/user"};
constexpr mode_t kPlainDirectory = 0755;
constexpr size_t kMaxAttributes = size_t{64} << 10;
// The machine's own label, present on all files if SELinux is in use.
constexpr std::string_view kLabel = "security.selinux";
constexpr timespec kDirectoryTime{0, 0};

Result<> ensureDirectory(int root, const char* name) {
  struct stat status{};
  if (::fstatat(root, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    TRY(removeTree(root, name));
  }
  if (::mkdirat(root, name, kPlainDirectory) == 0) return {};
  return failErrno(std::string("making ") + name);
}

// Removes the extended attributes of the file or directory at `path`, without following a link.
Result<> dropAttributes(const std::string& path, std::string_view name) {
  std::string names(kMaxAttributes, '\0');
  const ssize_t n = ::llistxattr(path.c_str(), names.data(), names.size());
  if (n < 0 && errno == ENOTSUP) return {};
  if (n < 0) return failErrno("extended attributes of " + shown(name));
  std::string_view rest(names.data(), static_cast<size_t>(n));
  while (!rest.empty()) {
    const std::string attribute(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(attribute.size() + 1, rest.size()));
    if (attribute == kLabel) continue;
    if (::lremovexattr(path.c_str(), attribute.c_str()) != 0 && errno != ENODATA) {
      return failErrno("removing an extended attribute of " + shown(name));
    }
  }
  return {};
}

class Finisher {
 public:
  explicit Finisher(const Bounds& bounds) : bounds_(bounds) {}

  Result<> directory(int fd, size_t depth) {
    if (depth > kMaxDepth) {
      return fail(Code::kTooLarge, "more than " + std::to_string(kMaxDepth) + " directories deep");
    }
    const std::string itself = "/proc/self/fd/" + std::to_string(fd);
    for (const std::string& name : TRY(namesIn(fd)))
      TRY(entry(fd, itself + "/" + name, name, depth));
    const std::array<timespec, 2> times{kDirectoryTime, kDirectoryTime};
    if (::futimens(fd, times.data()) != 0) return failErrno("setting the time of a directory");
    return {};
  }

  // True if every name of each file was found in the tree.
  [[nodiscard]] bool linksAreInside() const {
    return std::ranges::all_of(links_, [](const auto& each) { return each.second == 0; });
  }
  [[nodiscard]] TreeSize size() const { return size_; }

 private:
  Result<> entry(int parent, const std::string& path, const std::string& name, size_t depth) {
    struct stat status{};
    if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return failErrno(name);
    const bool directory_entry = S_ISDIR(status.st_mode);
    if (!directory_entry && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
      return removeTree(parent, name);
    }
    TRY(count(status));
    TRY(own(parent, name, status));
    if (S_ISLNK(status.st_mode)) return dropAttributes(path, name);
    const mode_t mode = directory_entry ? directoryMode(status.st_mode) : fileMode(status.st_mode);
    TRY(dropAttributes(path, name));
    const Fd fd(::openat(
        parent, name.c_str(),
        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (directory_entry ? O_DIRECTORY : 0)));
    if (!fd) return failErrno("opening " + shown(name));
    if ((status.st_mode & 07777) != mode && ::fchmod(fd.get(), mode) != 0) {
      return failErrno("setting the mode of " + shown(name));
    }
    return directory_entry ? directory(fd.get(), depth + 1) : Result<>();
  }

  Result<> own(int parent, const std::string& name, const struct stat& status) {
    if (status.st_uid == ::geteuid() && status.st_gid == ::getegid()) return {};
    if (::fchownat(parent, name.c_str(), ::geteuid(), ::getegid(), AT_SYMLINK_NOFOLLOW) == 0) {
      return {};
    }
    return failErrno("taking " + shown(name));
  }

  Result<> count(const struct stat& status) {
    ++size_.files;
    if (!S_ISDIR(status.st_mode) && status.st_nlink > 1) {
      const auto [seen, first] = links_.try_emplace(status.st_ino, status.st_nlink);
      --seen->second;
      if (!first) return {};  // its bytes are counted
    }
    if (S_ISREG(status.st_mode)) size_.bytes += static_cast<uint64_t>(status.st_size);
    if (size_.files <= bounds_.files && size_.bytes <= bounds_.bytes) return {};
    return fail(Code::kTooLarge,
                "the tree is larger than images.max_files and images.max_mb allow");
  }

  const Bounds bounds_;
  TreeSize size_;
  std::map<ino_t, nlink_t> links_;  // files with several names, and the number of names not yet
                                    // found
};

}  // namespace

Result<TreeSize> finishTree(int root, const Bounds& bounds) {
  TRY(ensureDirectory(root, "home"));  // users of the image may have directories there
  for (const char* name : kMountPoints) {
    TRY(removeTree(root, name));
    TRY(ensureDirectory(root, name));
  }
  TRY(ensureDirectory(root, "etc"));
  if (::fchmod(root, kPlainDirectory) != 0) return failErrno("setting the mode of the tree");
  TRY(dropAttributes("/proc/self/fd/" + std::to_string(root) + "/.", "the tree"));
  // Entries made for a tree come on top of its bounds.
  const uint64_t extra = std::size(kMountPoints) + 2;
  Finisher finisher({bounds.bytes, bounds.files + extra});
  TRY(finisher.directory(root, 0));
  if (!finisher.linksAreInside()) {
    return fail(Code::kInvalid, "a file of the tree is linked from outside of it");
  }
  return finisher.size();
}

}  // namespace cloister::images
