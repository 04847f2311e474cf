// SPDX-License-Identifier: Apache-2.0
// Whether KVM boots machines here. Opening /dev/kvm proves little: inside a virtual machine, for
// example, the device may exist and run no kernel. So the node boots one machine of the real image,
// with the real command and the VMM's system call filter, until the machine's runner has sent its
// first frame.
#pragma once

#include <linux/filter.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "confine/microvm/devices.h"
#include "sandbox/microvm/accelerator.h"
#include "sandbox/microvm/vmm.h"

namespace cloister::runtime::microvm {

struct KvmTrial {
  std::string image_root;            // "" = the host's own; where the VMM and its libraries are
  const Vmm* vmm = nullptr;          // outlives this object
  std::vector<std::string> command;  // its, with KVM
  std::vector<sock_filter> filter;   // the VMM's
  MoreFiles files;                   // in its /dev
  int kernel = -1;                   // descriptors that the command opens by number
  int initrd = -1;
  int disk = -1;
  std::chrono::seconds patience{10};
  std::string name;  // key of the cached answer, unique for a VMM and image
  // Further facts on which the answer depends, one a line, besides the host's kernel and its
  // current boot.
  std::string key;
};

// Asks the device (linux/kvm.h). Cheap, but no proof that machines work.
KvmFound askKvm();

// Proves KVM after askKvm() succeeded. Returns the answer cached during this boot of the host
// (own_cache.h), positive or negative. Otherwise an unprivileged child with its own mounts,
// processes and network boots a machine, and is killed after the answer or `patience`. The caller
// has a single thread.
KvmFound proveKvm(const KvmTrial& trial);

}  // namespace cloister::runtime::microvm
