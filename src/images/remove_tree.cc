// SPDX-License-Identifier: Apache-2.0
#include "images/remove_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <tuple>

#include "base/fd.h"
#include "images/names.h"

namespace cloister::images {
namespace {

// Limit of nested directories held open; deeper directories are moved up first.
constexpr int kMaxOpen = 100;

class Remover {
 public:
  explicit Remover(int top) : top_(top) {}

  Result<> empty(int directory, int depth) {
    for (const std::string& name : TRY(namesIn(directory)))
      TRY(remove(directory, name, depth));
    return {};
  }

  [[nodiscard]] bool movedSome() const { return moved_ > 0; }

 private:
  Result<> remove(int parent, const std::string& name, int depth) {
    if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR) return failErrno("removing a file of an image");
    // Makes our own directory readable first.
    std::ignore = ::fchmodat(parent, name.c_str(), 0700, AT_SYMLINK_NOFOLLOW);
    if (depth >= kMaxOpen) return moveUp(parent, name);
    const Fd directory(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return failErrno("opening a directory of an image");
    TRY(empty(directory.get(), depth + 1));
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    return failErrno("removing a directory of an image");
  }

  // The tree may have any names, so taken names are skipped.
  Result<> moveUp(int parent, const std::string& name) {
    do {
      const std::string deep = ".deep-" + std::to_string(moved_++);
      if (::renameat(parent, name.c_str(), top_, deep.c_str()) == 0) return {};
    } while (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR);
    return failErrno("removing a directory of an image");
  }

  int top_;
  uint64_t moved_ = 0;
};

}  // namespace

Result<> removeTree(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  const Fd top(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!top) return failErrno("opening " + name);
  // Each round takes away as many levels as may be open.
  for (bool more = true; more;) {
    Remover remover(top.get());
    TRY(remover.empty(top.get(), 0));
    more = remover.movedSome();
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return failErrno("removing " + name);
}

}  // namespace cloister::images
