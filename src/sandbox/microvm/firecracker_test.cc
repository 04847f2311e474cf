// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/firecracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::runtime::microvm {
namespace {

using testing::HasSubstr;

TEST(FirecrackerVersion, IsWhatItSays) {
  const auto version = firecrackerVersionIn("Firecracker v1.13.1\n\nmore\n");
  EXPECT_EQ(version.major, 1U);
  EXPECT_EQ(version.minor, 13U);
  EXPECT_EQ(version.text, "1.13.1");
  EXPECT_EQ(firecrackerVersionIn("Firecracker v1.17.0-dev\n").text, "1.17.0-dev");
  for (const char* none :
       {"", "Firecracker", "Firecracker v", "Firecracker v1", "Firecracker v1.", "Firecracker vx.8",
        "QEMU emulator version 7.2", "firecracker v1.8.0", "Firecracker v99999999999.8"}) {
    EXPECT_EQ(firecrackerVersionIn(none).text, "") << none;
  }
}

TEST(FirecrackerCommand, IsTheDriversOrders) {
  SandboxSpec spec;
  spec.guest_memory_bytes = uint64_t{100} << 20;
  spec.guest_cpus = 2;
  const auto command = firecrackerCommand("/usr/bin/firecracker",
                                          {.own_bytes = uint64_t{28} << 20, .kvm = true}, spec);
  ASSERT_EQ(command.size(), 9U);
  EXPECT_EQ(command[1], "/usr/bin/firecracker");
  EXPECT_EQ(command[3], "/proc/self/fd/5");
  EXPECT_EQ(command[5], "/proc/self/fd/7");
  EXPECT_EQ(command[6], "2");
  EXPECT_EQ(command[7], "128");
  for (const char* part :
       {"console=ttyS0", " reboot=k ", "cloister_memory=104857600", " cloister_vsock=1024"})
    EXPECT_THAT(command[8], HasSubstr(part));
}

TEST(FirecrackerCommand, SaysHowTheMachineBegins) {
  SandboxSpec spec;
  spec.guest_begins = Beginning::kKept;
  auto command = firecrackerCommand("firecracker", {.kvm = true}, spec);
  ASSERT_EQ(command.size(), 13U);
  EXPECT_THAT(command[8], HasSubstr(" cloister_sleeps=1"));
  EXPECT_THAT(std::vector(command.begin() + 9, command.end()),
              testing::ElementsAre("to-be-kept", "/proc/self/fd/8", "/proc/self/fd/10", "9"));
  spec.guest_begins = Beginning::kResumes;
  command = firecrackerCommand("firecracker", {.kvm = true}, spec);
  ASSERT_EQ(command.size(), 13U);
  EXPECT_EQ(command[9], "as-kept");
}

TEST(FirecrackerCommand, NamesTheLinkOfAMachineWithANetwork) {
  SandboxSpec spec;
  spec.guest_link = 0xC6120003;
  const auto command = firecrackerCommand("firecracker", {.kvm = true}, spec);
  EXPECT_THAT(std::vector(command.begin() + 9, command.end()),
              testing::ElementsAre("linked", "tap0", "02:c1:05:7e:00:01"));
  EXPECT_THAT(command[8], HasSubstr(" cloister_network=3323068419"));
  spec.guest_begins = Beginning::kResumes;
  EXPECT_EQ(firecrackerCommand("firecracker", {.kvm = true}, spec)[12], "as-kept");
}

TEST(Firecracker, KeepsWithKvmAndQemuWithout) {
  for (const VmmKind* kind : vmmKinds()) {
    if (kind->keeping == nullptr) continue;
    EXPECT_EQ(kind->keeping->with_kvm, kind == &kFirecracker) << kind->title;
    EXPECT_EQ(kind->keeping->copies, kind == &kFirecracker) << kind->title;
  }
  EXPECT_NE(kFirecracker.keeping, nullptr);
}

}  // namespace
}  // namespace cloister::runtime::microvm
