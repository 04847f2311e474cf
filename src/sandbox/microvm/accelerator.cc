// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/accelerator.h"

namespace cloister::runtime::microvm {
namespace {

using Way = Choice::Way;
using model::Accelerator;

constexpr char kEmulate[] = "set microvm.emulate to true: programs take many times as long";

constexpr char kOnlyKvm[] = "this VMM runs machines with KVM only, and microvm.accelerator is tcg";

Choice emulated(bool allowed, const std::string& why) {
  if (allowed) return {Way::kTcg, "emulated" + (why.empty() ? "" : ", as " + why), ""};
  return {Way::kNone, why, kEmulate};
}

}  // namespace

Choice chooseAccelerator(Accelerator wanted, bool may_emulate, bool can_emulate,
                         const std::function<KvmFound()>& ask) {
  if (wanted == Accelerator::kTcg) {
    if (!can_emulate) return {Way::kNone, kOnlyKvm, "set microvm.accelerator to auto"};
    if (may_emulate) return emulated(true, "");
    return emulated(false, "microvm.accelerator is tcg, and machines may not be emulated");
  }
  const KvmFound kvm = ask();
  if (kvm.works) return {Way::kKvm, "KVM, " + kvm.detail, ""};
  if (wanted == Accelerator::kKvm || !can_emulate) return {Way::kNone, kvm.detail, kvm.remedy};
  Choice choice = emulated(may_emulate, kvm.detail);
  choice.remedy = kvm.remedy + (may_emulate ? "" : ", or " + choice.remedy);
  return choice;
}

}  // namespace cloister::runtime::microvm
