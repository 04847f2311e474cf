// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/accelerator.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/microvm/command.h"

namespace cloister::runtime::microvm {
namespace {

using model::Accelerator;
using testing::HasSubstr;
using testing::Not;
using Way = Choice::Way;

const KvmFound kWorks{true, "booted in 200 ms", ""};
const KvmFound kFails{false, "/dev/kvm is there, but booted no kernel within 10 s", "use another"};

Choice choose(Accelerator wanted, bool may_emulate, const KvmFound& found) {
  return chooseAccelerator(wanted, may_emulate, [&] { return found; });
}

TEST(Accelerator, IsKvmWhereItWorks) {
  for (const Accelerator wanted : {Accelerator::kAuto, Accelerator::kKvm}) {
    for (const bool may_emulate : {false, true}) {
      const Choice choice = choose(wanted, may_emulate, kWorks);
      EXPECT_EQ(choice.way, Way::kKvm);
      EXPECT_THAT(choice.detail, HasSubstr("booted in 200 ms"));
      EXPECT_EQ(choice.remedy, "");
    }
  }
}

TEST(Accelerator, IsEmulationWhereThatIsAllowedAndSaysWhy) {
  const Choice choice = choose(Accelerator::kAuto, true, kFails);
  EXPECT_EQ(choice.way, Way::kTcg);
  EXPECT_THAT(choice.detail, HasSubstr("emulated, as /dev/kvm is there, but booted no kernel"));
  EXPECT_EQ(choice.remedy, "use another");
}

TEST(Accelerator, IsNoneWhereNeitherCanBe) {
  const Choice choice = choose(Accelerator::kAuto, false, kFails);
  EXPECT_EQ(choice.way, Way::kNone);
  EXPECT_EQ(choice.detail, kFails.detail);
  EXPECT_THAT(choice.remedy, HasSubstr("use another, or set microvm.emulate to true"));
}

TEST(Accelerator, NeverFallsBackFromKvm) {
  for (const bool may_emulate : {false, true}) {
    const Choice choice = choose(Accelerator::kKvm, may_emulate, kFails);
    EXPECT_EQ(choice.way, Way::kNone);
    EXPECT_EQ(choice.detail, kFails.detail);
    EXPECT_EQ(choice.remedy, "use another");
  }
}

TEST(Accelerator, DoesNotAskAboutKvmForNothing) {
  int asked = 0;
  const auto ask = [&] {
    asked++;
    return kWorks;
  };
  EXPECT_EQ(chooseAccelerator(Accelerator::kTcg, true, ask).way, Way::kTcg);
  const Choice none = chooseAccelerator(Accelerator::kTcg, false, ask);
  EXPECT_EQ(none.way, Way::kNone);
  EXPECT_THAT(none.remedy, HasSubstr("microvm.emulate"));
  EXPECT_EQ(asked, 0);
  chooseAccelerator(Accelerator::kAuto, true, ask);
  EXPECT_EQ(asked, 1);
}

TEST(Stalled, IsWhatQemuSaysWhenItWaitsForAPerson) {
  EXPECT_EQ(stalledAt("[ 0.1] Linux\nKVM internal error. Suberror: 1\n"), 13U);
  EXPECT_EQ(stalledAt("error: kvm run failed Bad address\n"), 0U);
  EXPECT_EQ(stalledAt("KVM: entry failed, hardware error 0x0\n"), 0U);
  EXPECT_EQ(stalledAt("kvm: registered"), std::string_view::npos);
  EXPECT_EQ(stalledAt(""), std::string_view::npos);
}

class Command : public testing::TestWithParam<bool> {
 protected:
  static std::vector<std::string> command(bool kvm) {
    SandboxSpec spec;
    spec.guest_memory_bytes = uint64_t{64} << 20;
    spec.guest_cpus = 1;
    return commandFor({.qemu = "/usr/bin/qemu", .kvm = kvm, .tsc_kilohertz = 2'000'000}, spec);
  }
  static std::string after(const std::vector<std::string>& command, const std::string& flag) {
    const auto found = std::ranges::find(command, flag);
    return found == command.end() ? "" : *std::next(found);
  }
};

TEST_P(Command, HasTheSameFewDevices) {
  std::vector<std::string> devices;
  const auto all = command(GetParam());
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i] == "-device") devices.push_back(all[i + 1].substr(0, all[i + 1].find(',')));
  }
  EXPECT_EQ(devices, (std::vector<std::string>{"virtio-blk-device", "virtio-serial-device",
                                               "virtserialport"}));
  EXPECT_EQ(after(all, "-machine"),
            "microvm,pit=off,pic=off,rtc=on,isa-serial=on,x-option-roms=off");
  EXPECT_EQ(std::ranges::count(all, "-accel"), 1);
}

INSTANTIATE_TEST_SUITE_P(Both, Command, testing::Bool());

TEST_F(Command, OnTheProcessorItselfKeepsItsGuard) {
  const auto kvm = command(true);
  EXPECT_EQ(after(kvm, "-accel"), "kvm");
  for (const char* part : {"host,", "migratable=off", "vmx=off", "svm=off", "pmu=off"})
    EXPECT_THAT(after(kvm, "-cpu"), HasSubstr(part));
  for (const char* part : {"tsc", "mitigations"})
    EXPECT_THAT(after(kvm, "-append"), Not(HasSubstr(part)));
}

TEST_F(Command, EmulatedIsToldItsClock) {
  const auto tcg = command(false);
  EXPECT_THAT(after(tcg, "-accel"), HasSubstr("tcg,"));
  EXPECT_EQ(after(tcg, "-cpu"), "max");
  EXPECT_THAT(after(tcg, "-append"), HasSubstr(" tsc_early_khz=2000000 mitigations=off"));
}

}  // namespace
}  // namespace cloister::runtime::microvm
