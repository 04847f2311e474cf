// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/accelerator.h"

#include <algorithm>

namespace cloister::runtime::microvm {
namespace {

using Way = Choice::Way;
using model::Accelerator;

constexpr char kEmulate[] = "set microvm.emulate to true: programs take many times as long";

// As QEMU writes them (accel/kvm/kvm-all.c).
constexpr std::string_view kStalls[] = {"KVM internal error", "error: kvm run failed",
                                        "KVM: entry failed"};

Choice emulated(bool allowed, const std::string& why) {
  if (allowed) return {Way::kTcg, "emulated" + (why.empty() ? "" : ", as " + why), ""};
  return {Way::kNone, why, kEmulate};
}

}  // namespace

Choice chooseAccelerator(Accelerator wanted, bool may_emulate,
                         const std::function<KvmFound()>& ask) {
  if (wanted == Accelerator::kTcg) {
    if (may_emulate) return emulated(true, "");
    return emulated(false, "microvm.accelerator is tcg, and machines may not be emulated");
  }
  const KvmFound kvm = ask();
  if (kvm.works) return {Way::kKvm, "KVM, " + kvm.detail, ""};
  if (wanted == Accelerator::kKvm) return {Way::kNone, kvm.detail, kvm.remedy};
  Choice choice = emulated(may_emulate, kvm.detail);
  choice.remedy = kvm.remedy + (may_emulate ? "" : ", or " + choice.remedy);
  return choice;
}

size_t stalledAt(std::string_view said) {
  size_t first = std::string_view::npos;
  for (const std::string_view stall : kStalls)
    first = std::min(first, said.find(stall));
  return first;
}

}  // namespace cloister::runtime::microvm
