// SPDX-License-Identifier: Apache-2.0
// The /dev of a VMM that uses hardware virtualisation. Such a VMM opens /dev/kvm by name, so the
// device must exist for the VMM, and for no other process. The device is on a small file system of
// its own, which exists detached. Only the process that becomes the VMM mounts the file system,
// over the /dev that all sandboxes share.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/confine.h"
#include "confine/mount_plan.h"
#include "linux/landlock.h"

namespace cloister::runtime::microvm {

// Steps that fill the directory: own device nodes where mknod is allowed, else the host's, bound;
// then `more`, whose files take `bytes`.
struct MoreFiles {
  std::vector<MountStep> steps{};
  uint64_t bytes = 0;
};
std::vector<MountStep> deviceSteps(const MoreFiles& more = {});

// The device by which network links are made, as "net/tun" in such a directory.
MoreFiles linkDevice();

// A detached directory with that device alone, for the spawner, which makes links (spawn_loop.h).
// Fails where no link can be made here: a child makes one in a network namespace of its own. As
// makeDevices().
Result<Fd> makeLinkDevice();

// Makes a detached mount, including mounts below, for a single VMM. A child in its own mount
// namespace builds the mount within some milliseconds, and the caller waits. If the kernel forbids
// a step, the error names the step. The caller has a single thread.
Result<Fd> makeDevices(const MoreFiles& more = {});

// Attaches the mount open at `mount` as /dev.
MountStep attachDevices(int mount);

// Paths for a VMM that shows its machine a directory (virtio-fs): the machine's first root, and
// within a mount point for the root of its programs.
inline constexpr char kShown[] = "dev/machine";
inline constexpr char kShownRoot[] = "dev/machine/root";
// Steps that bind this sandbox's own root there, read-only, without its /proc and /dev. They also
// make /proc read-only.
std::vector<MountStep> showRoot();

// The Landlock rules of a VMM with a shown directory: no file is writable, and a single device is
// controlled. `spec` adds the VMM's further needs.
std::vector<linux::LandlockRule> vmmRules(const SandboxSpec& spec);

}  // namespace cloister::runtime::microvm
