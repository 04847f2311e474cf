// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/qemu.h"

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
  EXPECT_EQ(qemuStalledAt("[ 0.2] APIC frequency too slow, disabling apic timer\n"), 7U);
  EXPECT_EQ(qemuStalledAt("kvm: registered"), std::string_view::npos);
  EXPECT_EQ(qemuStalledAt(""), std::string_view::npos);
}

class Command : public testing::TestWithParam<bool> {
 protected:
  static std::vector<std::string> command(bool kvm, Beginning begins = Beginning::kBoots,
                                          uint32_t link = 0) {
    SandboxSpec spec;
    spec.guest_link = link;
    spec.guest_begins = begins;
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

TEST_P(Command, HasALinkIfTheMachineHasANetwork) {
  for (const Beginning begins : {Beginning::kBoots, Beginning::kResumes}) {
    const auto all = command(GetParam(), begins, 0xC6120003);
    EXPECT_EQ(after(all, "-netdev"),
              "tap,id=link,fd=" + std::to_string(begins == Beginning::kBoots ? 8 : 11));
    EXPECT_EQ(all.back(), "virtio-net-device,netdev=link,mac=02:c1:05:7e:00:01");
    EXPECT_THAT(after(all, "-append"),
                HasSubstr(" cloister_network=3323068419 cloister_gateway=3323068417"));
  }
  EXPECT_EQ(after(command(GetParam()), "-netdev"), "");
  EXPECT_THAT(after(command(GetParam()), "-append"), Not(HasSubstr("cloister_network")));
}

INSTANTIATE_TEST_SUITE_P(Both, Command, testing::Bool());

TEST_F(Command, OnTheProcessorItselfKeepsItsGuard) {
  const auto kvm = command(true);
  EXPECT_EQ(after(kvm, "-accel"), "kvm");
  for (const char* part : {"host,", "migratable=off", "vmx=off", "svm=off", "pmu=off"})
    EXPECT_THAT(after(kvm, "-cpu"), HasSubstr(part));
#if defined(__x86_64__)
  EXPECT_EQ(after(kvm, "-cpu").ends_with(",arch-capabilities=off"), __builtin_cpu_is("intel") == 0);
#endif
  for (const char* part : {"tsc", "mitigations"})
    EXPECT_THAT(after(kvm, "-append"), Not(HasSubstr(part)));
}

TEST_F(Command, EmulatedIsToldItsClock) {
  const auto tcg = command(false);
  EXPECT_THAT(after(tcg, "-accel"), HasSubstr("tcg,"));
  EXPECT_EQ(after(tcg, "-cpu"), "max");
  EXPECT_THAT(after(tcg, "-append"), HasSubstr(" tsc_early_khz=2000000 mitigations=off"));
}

TEST_F(Command, MemoryIsSharedWithItsFileOnlyToBeKept) {
  EXPECT_EQ(after(command(false), "-object"), "");
  EXPECT_EQ(after(command(false), "-mon"), "");
  EXPECT_THAT(after(command(false), "-append"), Not(HasSubstr("cloister_sleeps")));
  const auto kept = command(false, Beginning::kKept);
  EXPECT_EQ(after(kept, "-object"),
            "memory-backend-file,id=memory,mem-path=/proc/self/fd/8,share=on,size=64M");
  EXPECT_THAT(after(kept, "-machine"), HasSubstr(",memory-backend=memory"));
  EXPECT_EQ(after(kept, "-incoming"), "");
  EXPECT_THAT(after(kept, "-append"), HasSubstr(" cloister_sleeps=1"));
  auto resumes = command(false, Beginning::kResumes);
  EXPECT_EQ(after(resumes, "-incoming"), "defer");
  EXPECT_THAT(after(resumes, "-object"), HasSubstr("share=off"));
  // Otherwise the machine must be the same, since its state depends on the machine.
  std::erase(resumes, "-incoming");
  std::erase(resumes, "defer");
  *std::ranges::find(resumes, after(resumes, "-object")) = after(kept, "-object");
  EXPECT_EQ(resumes, kept);
}

}  // namespace
}  // namespace cloister::runtime::microvm
