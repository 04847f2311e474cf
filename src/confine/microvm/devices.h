// SPDX-License-Identifier: Apache-2.0
// The /dev of a VMM that has the processor's own virtualisation: it opens /dev/kvm by name, so it
// must be there, and nowhere else. It is on a small file system of its own, which exists detached
// until the one process that becomes that VMM puts it over the /dev that all sandboxes share.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/confine.h"
#include "confine/mount_plan.h"
#include "linux/landlock.h"

namespace cloister::runtime::microvm {

// What is in it: nodes of its own where this process may make some, else the host's, bound. And
// `more`, of that many bytes.
struct MoreFiles {
  std::vector<MountStep> steps{};
  uint64_t bytes = 0;
};
std::vector<MountStep> deviceSteps(const MoreFiles& more = {});

// A new one: a detached mount with those below it, for one VMM. Made by a child in a mount
// namespace of its own, which takes some milliseconds and is waited for. Where the kernel does not
// allow it, the error says what it did not allow. The caller has one thread.
Result<Fd> makeDevices(const MoreFiles& more = {});

// Puts the one at `mount` over /dev.
MountStep attachDevices(int mount);

// In it, where a VMM shows its machine a directory (virtio-fs): the machine's first root, and in
// that a place for the root of its programs.
inline constexpr char kShown[] = "dev/machine";
inline constexpr char kShownRoot[] = "dev/machine/root";
// Puts this sandbox's own root there, without its /proc and its /dev, and read-only; so is /proc
// then.
std::vector<MountStep> showRoot();

// What Landlock lets such a VMM do: it writes no file, and controls one device. What it needs
// besides, its request says.
std::vector<linux::LandlockRule> vmmRules(const SandboxSpec& spec);

}  // namespace cloister::runtime::microvm
