// SPDX-License-Identifier: Apache-2.0
// Where the node has brought an agent's walls (wire/guest.h): what puts them up is a program of its
// own, which the node brings with them, as it is made of the node's parts.
#pragma once

namespace cloister::guest {

// Covers in the initial RAM file system: an empty file and an empty directory without permissions
// (confine/mount_plan.h).
inline constexpr char kMaskFile[] = "/run/masked/file";
inline constexpr char kMaskDirectory[] = "/run/masked/directory";
void makeMasks();

// Runs the program that applies an agent's confinement rules to the root's mounts; ends the machine
// on failure. Does nothing without rules.
void putUpWalls();

}  // namespace cloister::guest
