// SPDX-License-Identifier: Apache-2.0
// Whether machines run on the processor itself, by KVM, or are interpreted (QEMU only, TCG).
// Compares the configuration's wish with the machine's abilities, and decides where the two differ.
// Pure.
#pragma once

#include <functional>
#include <string>

#include "model/guest_settings.h"

namespace cloister::runtime::microvm {

// The result of testing KVM (prove_kvm.h).
struct KvmFound {
  bool works = false;  // a machine was booted with KVM
  std::string detail;  // the duration of the boot, or the reason of the failure
  std::string remedy;  // "" if KVM works
};

struct Choice {
  enum class Way { kNone, kKvm, kTcg };
  Way way = Way::kNone;
  std::string detail;  // for the finding: the reason of the choice
  std::string remedy;
};

// Calls `ask`, which may take long, at most once, and only if the answer matters. Never chooses
// emulation unless allowed and supported by the VMM (`can_emulate`).
Choice chooseAccelerator(model::Accelerator wanted, bool may_emulate, bool can_emulate,
                         const std::function<KvmFound()>& ask);

}  // namespace cloister::runtime::microvm
