// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/qemu.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::runtime::microvm {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Stalled, IsWhatQemuSaysWhenItWaitsForAPerson) {
  EXPECT_EQ(qemuStalledAt("[ 0.1] Linux\nKVM internal error. Suberror: 1\n"), 13U);
  EXPECT_EQ(qemuStalledAt("error: kvm run failed Bad address\n"), 0U);
  EXPECT_EQ(qemuStalledAt("KVM: entry failed, hardware error 0x0\n"), 0U);
  EXPECT_EQ(qemuStalledAt("kvm: registered"), std::string_view::npos);
  EXPECT_EQ(qemuStalledAt(""), std::string_view::npos);
}

class Command : public testing::TestWithParam<bool> {
 protected:
  static std::vector<std::string> command(bool kvm) {
    SandboxSpec spec;
    spec.guest_memory_bytes = uint64_t{64} << 20;
    spec.guest_cpus = 1;
    return qemuCommand("/usr/bin/qemu", {.kvm = kvm, .tsc_kilohertz = 2'000'000}, spec);
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
