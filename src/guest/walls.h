// SPDX-License-Identifier: Apache-2.0
// The place to which the node has brought an agent's confinement rules (wire/guest.h). A separate
// program applies the rules, because the program consists of the node's parts. The node brings the
// program along with the rules.
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
