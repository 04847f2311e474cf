// SPDX-License-Identifier: Apache-2.0
// Whether KVM boots machines here. That /dev/kvm can be opened says little: in a virtual machine,
// say, it may be there and run no kernel. So one is booted, of the image that machines have, with
// their command and the VMM's system call filter, until its runner has said its first word.
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
  const Vmm* vmm = nullptr;          // outlives it
  std::vector<std::string> command;  // its, with KVM
  std::vector<sock_filter> filter;   // the VMM's
  MoreFiles files;                   // in its /dev
  int kernel = -1;                   // what the command opens by number
  int initrd = -1;
  int disk = -1;
  std::chrono::seconds patience{10};
  std::string name;  // under which the answer is kept: one for each VMM and image
  // What the answer depends on, one thing a line, besides the host's kernel and its present boot.
  std::string key;
};

// What the device says (linux/kvm.h): cheap, and no proof that it works.
KvmFound askKvm();

// Once that speaks for it: the answer of this boot of the host, where there is one (own_cache.h),
// for or against; else a machine is booted, by an unprivileged child with mounts, processes and
// network of its own, that is killed when it has spoken or `patience` is over. The caller has one
// thread.
KvmFound proveKvm(const KvmTrial& trial);

}  // namespace cloister::runtime::microvm
