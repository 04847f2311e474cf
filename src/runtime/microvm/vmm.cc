// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/vmm.h"

#include "runtime/microvm/firecracker.h"
#include "runtime/microvm/libkrun.h"
#include "runtime/microvm/qemu.h"

namespace cloister::runtime::microvm {

const std::vector<const VmmKind*>& vmmKinds() {
  static const std::vector<const VmmKind*> kinds = {&kFirecracker, &kQemu, &kLibkrun};
  return kinds;
}

}  // namespace cloister::runtime::microvm
