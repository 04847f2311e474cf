// SPDX-License-Identifier: Apache-2.0
// microVM: a guest (process/guest.h) whose kernel is Linux in a virtual machine of its own. The VMM
// is a program in a sandbox of the process runtime, with everything that confines one there:
//
//   spawner ─clone3─▶ confine() ─▶ QEMU            one process, the sandbox's user, no network
//                                   └─ guest kernel   pid 1 is cloister-guest, which starts the
//                                   runner
//
// It runs on the processor itself where KVM has been seen to boot one, else emulated where that is
// allowed (accelerator.h). With KVM the VMM has a /dev of its own (devices.h), and on top of a
// program's system call filter what it asks of it (policies/seccomp/vmm.json).
//
// The machine has the image's files on a disk that is only read, and its writable ones in its own
// memory. An image is a directory with
//
//   vmlinuz        a Linux kernel that boots on x86_64 without firmware (the x86 boot protocol)
//   modules.cpio   modules/NAME: what it needs as modules, loaded in the order of their names
//   root.squashfs  the root: with empty /proc, /dev, /tmp and /workspace
//
// which `./dev images` makes of Debian's packages. The node adds its own guest, runner and system
// call filter, so an image does not depend on the version of Cloister; and for an agent with walls
// those, and what puts them up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/guest_settings.h"
#include "runtime/process/guest.h"

namespace cloister::runtime {

struct MicrovmConfig {
  std::string qemu;        // path of qemu-system-x86_64; "": not offered
  std::string image;       // the directory
  std::string image_root;  // of sandboxes without a guest, in which `qemu` is looked for
  model::Accelerator accelerator = model::Accelerator::kAuto;
  bool emulate = false;         // whether a machine may be emulated
  uint32_t probe_seconds = 10;  // that the first boot with KVM may take
  uint32_t ready = 0;           // made ahead, at most
  uint64_t overhead_bytes = 0;  // of memory, for kernel and VMM beside the program
  std::string guest;            // path of cloister-guest
  std::string walls;            // path of cloister-walls
  std::string runner;           // path of cloister-runner
  std::string seccomp_policy;   // path of policies/seccomp/sandbox.json
  std::string vmm_policy;       // and of vmm.json, which adds KVM to it
};

// Asks QEMU for its version, for which it has a few seconds, and reads the image, all of it. Where
// KVM is wanted, boots a machine with it, once in each boot of the host (prove_kvm.h). Called while
// the process has one thread.
GuestFound findMicrovm(const MicrovmConfig& config);

}  // namespace cloister::runtime
