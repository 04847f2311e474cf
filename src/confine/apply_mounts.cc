// SPDX-License-Identifier: Apache-2.0
// Carries out the steps of a mount plan. Runs in the spawner and in a sandbox before the sandbox's
// confinement, never in the node.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "confine/mount_plan.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;

// Size limit of a file copied from the host's /etc.
constexpr size_t kMaxCopied = size_t{4} << 20;

const char* at(const MountStep& step) {
  return step.target.empty() ? "." : step.target.c_str();
}

Result<> makeNew(const MountStep& step) {
  const Fd mount =
      TRY(linux::newFilesystem(step.source, step.source, step.options, step.attributes));
  TRY(linux::attachMount(mount.get(), at(step)));
  // The working directory still refers to the directory under the mount, so enter the mount.
  if (step.target.empty() && ::fchdir(mount.get()) != 0) return failErrno("entering the new root");
  return {};
}

Result<> bindHost(const MountStep& step) {
  // In a container, a tree with locked mounts below can only be cloned recursively.
  bool recursive = step.op == MountStep::Op::kTree;
  auto mount = linux::cloneMount(step.source, recursive);
  if (!mount && !recursive) {
    recursive = true;
    mount = linux::cloneMount(step.source, recursive);
  }
  if (!mount) return std::unexpected(std::move(mount).error());
  TRY(linux::addAttributes(mount->get(), step.attributes, recursive));
  return linux::attachMount(mount->get(), at(step));
}

Result<> writeFile(const std::string& path, std::string_view content, mode_t mode) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return failErrno("making " + path);
  while (!content.empty()) {
    const ssize_t n = ::write(fd.get(), content.data(), content.size());
    if (n < 0) return failErrno("writing " + path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  if (::fchmod(fd.get(), mode) != 0) return failErrno("setting the mode of " + path);
  return {};
}

// Compiled Python that was made from a file with another time is out of date, and made again by
// each start (a millisecond).
Result<> setTime(const std::string& path, const timespec& modified) {
  const timespec times[2] = {modified, modified};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return failErrno("dating " + path);
  return {};
}

Result<> makeFile(const MountStep& step) {
  TRY(writeFile(step.target, step.content, step.mode));
  if (step.modified == 0) return {};
  return setTime(step.target, {.tv_sec = step.modified, .tv_nsec = 0});
}

Result<> copyOne(const std::string& from, const std::string& to, const struct stat& status) {
  auto content = base::readFile(from, kMaxCopied);
  if (!content) return {};  // an unreadable file cannot be needed inside
  TRY(writeFile(to, *content, status.st_mode & 0555));
  return setTime(to, status.st_mtim);
}

// Manual pages are most of /etc/alternatives, and no sandbox reads manual pages.
bool isManualPage(const std::string& name) {
  return name.ends_with(".gz");
}

// Links are copied as links, files as data, the rest not at all.
Result<> copyTree(const std::string& from, const std::string& to, int depth) {
  struct stat status{};
  if (::lstat(from.c_str(), &status) != 0 || (status.st_mode & 0004) == 0) return {};
  if (S_ISREG(status.st_mode)) return copyOne(from, to, status);
  std::error_code error;
  if (S_ISLNK(status.st_mode)) {
    fs::copy_symlink(from, to, error);
    return {};
  }
  if (!S_ISDIR(status.st_mode) || depth == 0) return {};
  if (::mkdir(to.c_str(), 0755) != 0 && errno != EEXIST) return failErrno("making " + to);
  for (auto entry = fs::directory_iterator(from, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (isManualPage(name)) continue;
    TRY(copyTree(from + "/" + name, to + "/" + name, depth - 1));
  }
  return {};
}

Result<> makeDevice(const MountStep& step) {
  const mode_t before = ::umask(0);
  const int made =
      ::mknod(step.target.c_str(), S_IFCHR | step.mode, makedev(step.major, step.minor));
  ::umask(before);
  if (made == 0) return {};
  if (errno != EPERM) return failErrno("making " + step.target);
  TRY(writeFile(step.target, "", step.mode));
  return bindHost(step);
}

Result<> makeDirectory(const MountStep& step) {
  if (::mkdir(step.target.c_str(), 0700) != 0 && errno != EEXIST) {
    return failErrno("making " + step.target);
  }
  if (::chmod(step.target.c_str(), step.mode) != 0) return failErrno("chmod " + step.target);
  return {};
}

Result<> mask(const MountStep& step) {
  auto done = linux::bindMount(step.source, step.target);
  if (!done && done.error().code == Code::kNotFound) return {};
  return done;
}

Result<> seal(const MountStep& step) {
  const Fd sealed(::open(at(step), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!sealed) return failErrno("opening " + step.target);
  return linux::addAttributes(sealed.get(), step.attributes);
}

}  // namespace

Result<> applyStep(const MountStep& step) {
  switch (step.op) {
    case MountStep::Op::kNew:
      return makeNew(step);
    case MountStep::Op::kBind:
    case MountStep::Op::kTree:
      return bindHost(step);
    case MountStep::Op::kPlace:
      return linux::bindMount(step.source, step.target);
    case MountStep::Op::kMask:
      return mask(step);
    case MountStep::Op::kDirectory:
      return makeDirectory(step);
    case MountStep::Op::kFile:
      return makeFile(step);
    case MountStep::Op::kSymlink:
      if (::symlink(step.source.c_str(), step.target.c_str()) != 0) {
        return failErrno("linking " + step.target);
      }
      return {};
    case MountStep::Op::kCopy:
      return copyTree(step.source, step.target, 8);
    case MountStep::Op::kDevice:
      return makeDevice(step);
    case MountStep::Op::kSeal:
      return seal(step);
    case MountStep::Op::kAttach:
      return linux::attachMount(step.mount, at(step));
    case MountStep::Op::kPivot:
      return linux::pivotHere();
  }
  return {};
}

}  // namespace cloister::runtime
