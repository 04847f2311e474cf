// SPDX-License-Identifier: Apache-2.0
// microVM: a guest (sandbox/host/guest.h) whose kernel is Linux in a virtual machine of its own.
// The VMM is a program in a sandbox of the process runtime, with the same confinement:
//
//   spawner ─clone3─▶ confine() ─▶ VMM             the sandbox's user
//                                   └─ guest kernel   pid 1 is cloister-guest, which starts the
//                                   runner
//
// vmm.h selects the VMM's program. The machine runs on the processor itself where KVM has booted a
// machine before, and otherwise is emulated if emulation is allowed (accelerator.h). With KVM the
// VMM has a /dev of its own (devices.h), and its system call filter is a program's filter plus the
// VMM's additions (policies/seccomp/vmm.json). A machine with a network has a tap interface in the
// sandbox's network namespace (confine/door_link.h).
//
// The machine has the image's files on a disk that is only read, and its writable ones in its own
// memory. An image is a directory with these files:
//
//   vmlinuz        a Linux kernel that boots on x86_64 without firmware (the x86 boot protocol)
//   vmlinux        the same, unpacked (ELF), for VMMs that boot only such
//   modules.cpio   modules/NAME: what it needs as modules, loaded in the order of their names;
//                  modules-network/NAME: likewise, for machines with a network (virtio-net, and
//                  overlayfs). Without this directory, machines have no network.
//   root.squashfs  the root: with empty /proc, /dev, /tmp and /workspace
//
// `./dev images` makes the directory from Debian's packages. The node adds its own guest, runner
// and system call filter, so an image does not depend on the version of Cloister. For an agent with
// confinement rules the node also adds the rules and the program that applies the rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/guest_settings.h"
#include "sandbox/host/guest.h"

namespace cloister::runtime {

struct MicrovmConfig {
  model::Vmm vmm = model::Vmm::kAuto;
  std::string qemu;         // path of qemu-system-x86_64; "": not offered
  std::string firecracker;  // path of firecracker; "": not offered
  std::string libkrun;      // path of libkrun.so.1; "": not offered
  std::string image;        // the directory
  std::string image_root;   // root of sandboxes without a guest, searched for the VMMs
  model::Accelerator accelerator = model::Accelerator::kAuto;
  bool emulate = false;         // whether a machine may be emulated
  uint64_t tsc_kilohertz = 0;   // for emulated machines; 0: measure here
  uint32_t probe_seconds = 10;  // timeout of the first boot with KVM
  uint32_t ready = 0;           // made ahead, at most
  uint32_t templates = 0;       // kept, at most (sandbox/pool/template.h)
  uint64_t overhead_bytes = 0;  // of memory, for kernel and VMM beside the program
  std::string programs;         // the directory of cloister-guest, cloister-runner and the like
  std::string policies;         // directory of sandbox.json and of the VMMs' additions
};

// Asks each VMM for its version, with a timeout of a few seconds each, and reads the whole image.
// If KVM is wanted, boots a machine with KVM, once for each boot of the host (prove_kvm.h). Takes
// the first wanted VMM that can run machines here. Call while the process has a single thread.
GuestFound findMicrovm(const MicrovmConfig& config);

}  // namespace cloister::runtime
