// SPDX-License-Identifier: Apache-2.0
// Mounts by the descriptor-based API (fsopen(2), fsmount(2), open_tree(2), move_mount(2),
// mount_setattr(2)): a mount is complete, with its flags, before it appears anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// MOUNT_ATTR_* of mount_setattr(2).
inline constexpr uint64_t kReadOnly = 0x1;
inline constexpr uint64_t kNoSuid = 0x2;
inline constexpr uint64_t kNoDev = 0x4;
inline constexpr uint64_t kNoExec = 0x8;

// "ro,nosuid" and so on.
std::string attributeNames(uint64_t attributes);

using MountOptions = std::vector<std::pair<std::string, std::string>>;  // "" value: a flag

// A new, detached instance of a file system; fsopen(2), fsconfig(2), fsmount(2). `source` is its
// name in mountinfo.
Result<Fd> newFilesystem(const std::string& type, const std::string& source,
                         const MountOptions& options, uint64_t attributes);

// A detached copy of the mount at `path`, optionally with all mounts below; open_tree(2)
// OPEN_TREE_CLONE.
Result<Fd> cloneMount(const std::string& path, bool recursive = false);

// The same for the directory or file open at `fd`, which may be O_PATH.
Result<Fd> cloneMountAt(int fd, bool recursive = false);

// mount_setattr(2): sets `attributes` on the mount, and on all mounts below when `recursive`.
Result<> addAttributes(int mount, uint64_t attributes, bool recursive = false);

// move_mount(2): the detached mount appears at `path`, relative to the working directory.
Result<> attachMount(int mount, const std::string& path);

// The same over the file or directory open at `target`, which may be O_PATH.
Result<> attachMountAt(int mount, int target);

// mount(2) MS_BIND: shows the file or directory at `source` also at `target`, with the same mount
// flags.
Result<> bindMount(const std::string& source, const std::string& target);

// umount2(2), MNT_DETACH: removes the mount from the tree; open files stay usable.
Result<> detachMount(const std::string& path);

// umount2(2): false while a file is open or a process has its directory there.
Result<bool> unmountUnused(const std::string& path);

// Makes all mounts private, so that no mount propagates in or out.
Result<> makePrivate();

// pivot_root(2) into the working directory, which must be a mount; detaches the old root.
Result<> pivotHere();

// chroot(2) and chdir(2): for processes trusted not to leave.
Result<> enterRoot(const std::string& path);

}  // namespace cloister::linux
