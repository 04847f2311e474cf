// SPDX-License-Identifier: Apache-2.0
// Where the node has brought an agent's walls (wire/guest.h): what puts them up is a program of its
// own, which the node brings with them, as it is made of the node's parts.
#pragma once

namespace cloister::guest {

// What covers things, in the initial RAM file system: an empty file and an empty directory that
// nobody may open (confine/mount_plan.h).
inline constexpr char kMaskFile[] = "/run/masked/file";
inline constexpr char kMaskDirectory[] = "/run/masked/directory";
void makeMasks();

// Runs it on the root, in whose mounts they stay; ends the machine where it fails. Nothing to do
// where there are no walls.
void putUpWalls();

}  // namespace cloister::guest
