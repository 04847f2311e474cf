// SPDX-License-Identifier: Apache-2.0
// The conformance suites over virtual machines, each booted for its test: in emulation, a few
// seconds each, and with KVM. Skipped, with the reason, without QEMU, without an image in the
// directory that CLOISTER_MICROVM names, or without a KVM that boots the image.
#include <sys/resource.h>

#include <algorithm>

#include <gmock/gmock.h>

#include "confine/microvm/command.h"
#include "runtime/fresh_suite.h"
#include "runtime/runtime_suite.h"
#include "runtime/session_suite.h"
#include "runtime/walls_suite.h"
#include "runtime/within_suite.h"
#include "sandbox/guest_harness.h"
#include "sandbox/microvm/archive.h"
#include "sandbox/microvm/emulated_testing.h"
#include "sandbox/microvm/microvm.h"
#include "sandbox/microvm/qemu.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {
namespace {

MicrovmConfig configuredWithKvm() {
  MicrovmConfig config = emulatedMachines();
  config.accelerator = model::Accelerator::kKvm;
  config.emulate = false;
  return config;
}

struct MicrovmKind {
  static constexpr bool kManyFiles = false;  // an image made for tests
  static GuestFound find() { return findMicrovm(emulatedMachines()); }
  static std::string lacks(Program /*program*/) { return ""; }
};
using MicrovmHarness = GuestHarness<MicrovmKind>;

struct KvmKind : MicrovmKind {
  static GuestFound find() { return findMicrovm(configuredWithKvm()); }
};
using KvmHarness = GuestHarness<KvmKind>;

INSTANTIATE_TYPED_TEST_SUITE_P(Microvm, RuntimeSuite, MicrovmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Microvm, SessionSuite, MicrovmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Microvm, FreshSuite, MicrovmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Microvm, WallsSuite, MicrovmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Microvm, WithinSuite, MicrovmHarness);

INSTANTIATE_TYPED_TEST_SUITE_P(MicrovmKvm, RuntimeSuite, KvmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(MicrovmKvm, SessionSuite, KvmHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(MicrovmKvm, WallsSuite, KvmHarness);

using testing::HasSubstr;
using testing::Not;

TEST(MicrovmTest, WhatCannotBeUsedIsFoundMissingWithTheRemedy) {
  MicrovmConfig config = emulatedMachines();
  config.qemu = "";
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("microvm.qemu"));
  config.qemu = "/nonexistent/qemu";
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("install qemu-system-x86"));
  config.qemu = "/bin/true";
  config.image = "/nonexistent";
  EXPECT_THAT(findMicrovm(config).finding.detail, HasSubstr("vmlinuz"));
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("copy the image to /nonexistent"));
}

TEST(MicrovmTest, AProgramThatIsNotQemuIsNone) {
  if (const std::string why = MicrovmHarness::absent(); !why.empty()) GTEST_SKIP() << why;
  MicrovmConfig config = emulatedMachines();
  config.qemu = "/bin/true";
  EXPECT_THAT(findMicrovm(config).finding.detail, HasSubstr("nothing that is QEMU's"));
}

TEST(MicrovmTest, AVmmThatIsNamedIsUsedOrNone) {
  if (const std::string why = MicrovmHarness::absent(); !why.empty()) GTEST_SKIP() << why;
  MicrovmConfig config = emulatedMachines();
  config.firecracker = "/nonexistent/firecracker";
  config.vmm = model::Vmm::kFirecracker;
  GuestFound found = findMicrovm(config);
  EXPECT_EQ(found.guest, nullptr);
  EXPECT_THAT(found.finding.remedy, HasSubstr("install Firecracker"));
  config.firecracker = "/bin/true";  // a VMM that cannot run is not asked for its version
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("microvm.accelerator"));
  config.vmm = model::Vmm::kLibkrun;
  config.libkrun = "/nonexistent/libkrun.so.1";
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("install libkrun 1.17"));
  config.libkrun = "";
  EXPECT_THAT(findMicrovm(config).finding.remedy, HasSubstr("set microvm.libkrun"));
}

TEST(MicrovmTest, WhereNoneIsNamedTheFinalOneSaysWhyItIsNoOther) {
  if (const std::string why = MicrovmHarness::absent(); !why.empty()) GTEST_SKIP() << why;
  MicrovmConfig config = emulatedMachines();
  config.firecracker = "/nonexistent/firecracker";
  config.vmm = model::Vmm::kAuto;
  const GuestFound found = findMicrovm(config);
  ASSERT_NE(found.guest, nullptr);
  EXPECT_THAT(found.finding.detail, HasSubstr("QEMU "));
  EXPECT_THAT(found.finding.detail, HasSubstr("; not Firecracker: opening /nonexistent"));
}

TEST(MicrovmTest, WhoDoesNotAllowEmulationGetsNoMachine) {
  if (const std::string why = MicrovmHarness::absent(); !why.empty()) GTEST_SKIP() << why;
  MicrovmConfig config = emulatedMachines();
  config.emulate = false;
  const GuestFound found = findMicrovm(config);
  EXPECT_EQ(found.guest, nullptr);
  EXPECT_THAT(found.finding.remedy, HasSubstr("microvm.emulate"));
}

TEST(MicrovmTest, WhoWantsKvmIsNeverGivenAnother) {
  MicrovmConfig config = configuredWithKvm();
  config.emulate = true;
  const GuestFound found = findMicrovm(config);
  if (!found.guest) {
    EXPECT_EQ(found.finding.state, model::Finding::State::kMissing);
    EXPECT_THAT(found.finding.remedy, Not(HasSubstr("microvm.emulate")));
    return;
  }
  EXPECT_EQ(found.finding.state, model::Finding::State::kOk);
  EXPECT_TRUE(found.guest->weakened().empty());
}

// With a processor clock claimed to be 1 MHz, the kernel counts timer ticks only for a moment.
TEST(MicrovmTest, OneThatFindsNoTimerGivesWayToAnother) {
  if (const std::string why = MicrovmHarness::absent(); !why.empty()) GTEST_SKIP() << why;
  MicrovmConfig config = emulatedMachines();
  config.tsc_kilohertz = 1'000;
  const GuestFound found = findMicrovm(config);
  ASSERT_NE(found.guest, nullptr) << found.finding.detail;
  ProcessConfig of = testbed::config();
  of.cgroup_parent = "cloister-test-no-timer";
  of.guests = {found.guest};
  auto host = startProcessHost(of);
  ASSERT_TRUE(host) << host.error().message;
  boost::asio::io_context io(1);
  const auto pool = std::make_shared<Pool>(
      io.get_executor(), *host,
      std::make_shared<PresentQueue>(io.get_executor(), (*host)->root(), Millis{45'000}),
      found.guest);
  model::Limits limits;
  model::settle(limits);
  const auto live = async::runTask(io, pool->claim(limits, {}));
  ASSERT_FALSE(live);
  EXPECT_THAT(live.error().message, HasSubstr("APIC frequency too slow"));
  EXPECT_THAT(live.error().message, HasSubstr("none of 3 has booted"));
}

TEST(MicrovmCommandTest, LimitsReachTheGuestAsTheyAre) {
  SandboxSpec spec;
  spec.guest_memory_bytes = uint64_t{100} << 20;
  spec.guest_pids = 9;
  spec.guest_cpus = 2;
  spec.scratch_bytes = 4096;
  spec.scratch_inodes = 5;
  spec.runs_own = false;
  spec.limits[0] = {RLIMIT_NOFILE, 64};
  spec.limits[1] = {RLIMIT_DATA, 1};  // of a host without control groups
  spec.limits[2] = {RLIMIT_FSIZE, 1 << 20};
  spec.limit_count = 3;
  const microvm::Machine machine{.own_bytes = uint64_t{28} << 20, .tsc_kilohertz = 2'000'000};
  const auto command = microvm::qemuCommand("/usr/bin/qemu", machine, spec);
  const auto after = [&](const std::string& flag) {
    return *std::next(std::ranges::find(command, flag));
  };
  const std::string line = after("-append");
  for (const char* part :
       {" tsc_early_khz=2000000", " cloister_memory=104857600", " cloister_pids=9",
        " cloister_scratch=4096", " cloister_inodes=5", " cloister_noexec=1", " cloister_writes=0",
        " cloister_limits=7:64,1:1048576"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  EXPECT_EQ(after("-m"), "128");
  EXPECT_EQ(after("-smp"), "2");
  EXPECT_EQ(microvm::decodeCommand(microvm::encodeCommand(command)), command);
}

TEST(MicrovmArchiveTest, FilesAreAsTheKernelReadsThem) {
  const std::string archive = microvm::makeArchive({{"init", 0100555, "12345"}});
  EXPECT_EQ(archive.substr(0, 6), "070701");
  EXPECT_EQ(archive.substr(6 + 8, 8), "0000816d");
  EXPECT_EQ(archive.substr(6 + 6 * 8, 8), "00000005");
  EXPECT_EQ(archive.substr(110, 5), std::string("init\0", 5));
  EXPECT_EQ(archive.substr(116, 5), "12345");
  EXPECT_EQ(archive.size() % 4, 0U);
  EXPECT_THAT(archive, HasSubstr("TRAILER!!!"));
}

}  // namespace
}  // namespace cloister::runtime
