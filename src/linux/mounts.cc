// SPDX-License-Identifier: Apache-2.0
#include "linux/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cloister::linux {
namespace {

// The kernel's message about a refused option, if any: "e overlay: ..." (fsopen(2)).
std::string kernelMessage(int context) {
  char text[512];
  const ssize_t n = ::read(context, text, sizeof text);
  return n > 2 ? " (" + std::string(text + 2, static_cast<size_t>(n) - 2) + ")" : "";
}

}  // namespace

std::string attributeNames(uint64_t attributes) {
  constexpr std::pair<uint64_t, const char*> kNames[] = {
      {kReadOnly, "ro"}, {kNoSuid, "nosuid"}, {kNoDev, "nodev"}, {kNoExec, "noexec"}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((attributes & bit) != 0) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text;
}

Result<Fd> newFilesystem(const std::string& type, const std::string& source,
                         const MountOptions& options, uint64_t attributes) {
  const Fd context(::fsopen(type.c_str(), FSOPEN_CLOEXEC));
  if (!context) return failErrno("fsopen " + type);
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto command = value.empty() ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    return ::fsconfig(context.get(), command, key.c_str(), value.empty() ? nullptr : value.c_str(),
                      0);
  };
  if (set("source", source) != 0) return failErrno("naming a new " + type);
  for (const auto& [key, value] : options) {
    if (set(key, value) != 0) {
      const int error = errno;
      return failErrno("option " + key + " of " + type + kernelMessage(context.get()), error);
    }
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    const int error = errno;
    return failErrno("making a " + type + kernelMessage(context.get()), error);
  }
  Fd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)));
  if (!mount) return failErrno("fsmount " + type);
  return mount;
}

Result<Fd> cloneMount(const std::string& path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0U);
  Fd mount(::open_tree(AT_FDCWD, path.c_str(), flags));
  if (!mount) return failErrno("open_tree " + path);
  return mount;
}

Result<Fd> cloneMountAt(int fd, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
  Fd mount(::open_tree(fd, "", recursive ? flags | AT_RECURSIVE : flags));
  if (!mount) return failErrno("open_tree");
  return mount;
}

Result<> addAttributes(int mount, uint64_t attributes, bool recursive) {
  mount_attr attr{};
  attr.attr_set = attributes;
  if (::mount_setattr(mount, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr,
                      sizeof attr) != 0) {
    return failErrno("mount_setattr");
  }
  return {};
}

Result<> attachMount(int mount, const std::string& path) {
  if (::move_mount(mount, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failErrno("mounting on " + path);
  }
  return {};
}

Result<> attachMountAt(int mount, int target) {
  constexpr unsigned kBoth = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::move_mount(mount, "", target, "", kBoth) != 0) return failErrno("move_mount");
  return {};
}

Result<> bindMount(const std::string& source, const std::string& target) {
  if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return failErrno("binding " + source + " to " + target);
  }
  return {};
}

Result<> detachMount(const std::string& path) {
  if (::umount2(path.c_str(), MNT_DETACH) != 0) return failErrno("detaching " + path);
  return {};
}

Result<bool> unmountUnused(const std::string& path) {
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) return true;
  if (errno == EBUSY) return false;
  return failErrno("unmounting " + path);
}

Result<> makePrivate() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return failErrno("making the mounts private");
  }
  return {};
}

Result<> pivotHere() {
  // The old root ends up on top of the new root, and can be detached there: pivot_root(2).
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return failErrno("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return failErrno("detaching the old root");
  if (::chdir("/") != 0) return failErrno("entering the new root");
  return {};
}

Result<> enterRoot(const std::string& path) {
  if (::chroot(path.c_str()) != 0) return failErrno("entering " + path);
  if (::chdir("/") != 0) return failErrno("entering /");
  return {};
}

}  // namespace cloister::linux
