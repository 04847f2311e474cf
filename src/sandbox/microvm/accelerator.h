// SPDX-License-Identifier: Apache-2.0
// Whether machines run on the processor itself, by KVM, or are interpreted (QEMU only, TCG): what
// the configuration wants, what this machine can, and what is done where the two do not meet. Pure.
#pragma once

#include <functional>
#include <string>

#include "model/guest_settings.h"

namespace cloister::runtime::microvm {

// What was found out about KVM here (prove_kvm.h).
struct KvmFound {
  bool works = false;  // a machine was booted with it
  std::string detail;  // how long that took, or why not
  std::string remedy;  // "" where it works
};

struct Choice {
  enum class Way { kNone, kKvm, kTcg };
  Way way = Way::kNone;
  std::string detail;  // for the finding: why it is this one
  std::string remedy;
};

// `ask` is called at most once, and not at all where the answer changes nothing: it may take long.
// Nothing becomes emulated that was not allowed to be, or that the VMM cannot (`can_emulate`).
Choice chooseAccelerator(model::Accelerator wanted, bool may_emulate, bool can_emulate,
                         const std::function<KvmFound()>& ask);

}  // namespace cloister::runtime::microvm
