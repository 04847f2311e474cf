// SPDX-License-Identifier: Apache-2.0
// libkrun as a VMM: its command line, the files that its machine sees, and a fully confined sandbox
// in which a double of the library plays the machine (tests/microvm/libkrun_double.c).
#include "sandbox/microvm/libkrun.h"

#include <algorithm>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "linux/kvm.h"
#include "linux/message.h"
#include "linux/seccomp.h"
#include "sandbox/host/host.h"
#include "sandbox/microvm/image.h"
#include "sandbox/testbed.h"
#include "wire/guest.h"

namespace cloister::runtime {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

MicrovmConfig configured() {
  MicrovmConfig config;
  config.programs = base::programDir();
  config.policies = base::shareDir() + "/policies/seccomp";
  return config;
}

SandboxSpec small() {
  SandboxSpec spec;
  spec.guest_memory_bytes = uint64_t{64} << 20;
  spec.guest_cpus = 2;
  return spec;
}

TEST(Libkrun, IsToldEverythingByArguments) {
  auto command = microvm::libkrunCommand("/usr/lib/libkrun.so.1",
                                         {.own_bytes = uint64_t{32} << 20, .kvm = true}, small());
  const std::vector<std::string> settings(command.begin() + 7, command.end());
  command.resize(7);
  EXPECT_THAT(command, ElementsAre("cloister-krun", "/usr/lib/libkrun.so.1", "/dev/machine",
                                   "/tmp/port", "1024", "2", "96"));
  for (const char* setting :
       {"cloister_memory=67108864", "cloister_vsock=1024", "cloister_shown=1"})
    EXPECT_THAT(settings, Contains(setting));
}

TEST(Libkrun, VersionIsThatOfItsFile) {
  const auto files = microvm::libkrunFiles("/usr/lib/libkrun.so.1.17.0\n/opt/libkrunfw.so.5.1.0\n");
  EXPECT_EQ(files.title, "libkrun 1.17.0 (libkrunfw 5.1.0)");
  EXPECT_EQ(files.kernel, "/opt/libkrunfw.so.5.1.0");
  for (const char* said :
       {"", "loading libkrun: it has no krun_add_vsock\n", "/usr/lib/libkrun.so.1\n",
        "/usr/lib/libkrun.so.1\n/usr/lib/libc.so.6\n"}) {
    EXPECT_EQ(microvm::libkrunFiles(said).title, "") << said;
  }
}

TEST(Libkrun, ShowsWhatTheGuestNeedsAndWallsWhereThereAreSome) {
  const microvm::Tools tools{"guest", "runner", "filter", "putting up"};
  const auto names = [&](const std::string& walls) {
    std::vector<std::string> all;
    for (const MountStep& step : microvm::shownFiles(tools, walls).steps) {
      if (step.op == MountStep::Op::kFile) all.push_back(step.target + "=" + step.content);
    }
    return all;
  };
  EXPECT_THAT(names(""), ElementsAre("machine/cloister-guest=guest",
                                     "machine/cloister-runner=runner", "machine/filter=filter"));
  EXPECT_THAT(names("high"), Contains("machine/walls=high"));
  EXPECT_THAT(names("high"), Contains("machine/cloister-walls=putting up"));
  const auto steps = microvm::deviceSteps(microvm::shownFiles(tools, "high"));
  EXPECT_EQ(steps.back().op, MountStep::Op::kSeal);
}

TEST(Libkrun, ItsMachinesSeeNothingOfTheProcess) {
  const auto steps = microvm::showRoot();
  ASSERT_EQ(steps.size(), 4U);
  for (const MountStep& step : steps)
    EXPECT_NE(step.attributes & linux::kReadOnly, 0U) << step.target;
  EXPECT_EQ(steps[1].target, "dev/machine/root/proc");
  EXPECT_EQ(steps[2].target, "dev/machine/root/dev");
  EXPECT_EQ(steps[3].target, "proc");
}

// libkrun's sandbox with a test double for the library. The command sets variables that tell the
// double its order, and that a kernel exists.
class Doubled final : public Guest {
 public:
  Doubled(std::string order, microvm::Tools tools, std::vector<sock_filter> filter)
      : order_(std::move(order)), tools_(std::move(tools)), filter_(std::move(filter)) {}
  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] std::vector<std::string> weakened() const override { return {}; }
  [[nodiscard]] model::Finding finding() const override { return {}; }
  [[nodiscard]] uint32_t ready() const override { return 0; }
  [[nodiscard]] std::string noNetwork() const override { return "none in tests"; }
  void adjust(const model::Limits& /*limits*/, SandboxSpec& spec,
              linux::CgroupLimits& /*cgroup*/) const override {
    spec.guest_devices = spec.guest_sockets = spec.guest_shows = true;
    spec.guest_cpus = 1;
    spec.guest_memory_bytes = uint64_t{64} << 20;
  }
  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                              const std::string& walls) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(linux::sealedData(microvm::encodeCommand(command(spec)))));
    const std::string doubles = base::programDir() + "/../double";
    for (const std::string& file : {doubles + "/libkrun.so.1", doubles + "/libkrunfw.so.5",
                                    base::programDir() + "/cloister-krun"}) {
      const std::string bytes = TRY(base::readFile(file));
      fds.push_back(TRY(linux::sealedData(bytes)));
    }
    fds.push_back(TRY(microvm::makeDevices(microvm::shownFiles(tools_, walls))));
    fds.push_back(TRY(linux::sealedData(microvm::bytesOf(filter_))));
    return fds;
  }
  [[nodiscard]] uint32_t fileCount() const override { return 1 + microvm::kOpened + 2; }
  void describe(const SandboxSpec& /*spec*/, base::json::object& /*plan*/) const override {}

 private:
  [[nodiscard]] std::vector<std::string> command(const SandboxSpec& spec) const {
    std::vector<std::string> all = {"/usr/bin/env", "CLOISTER_KRUN_DOUBLE=" + order_,
                                    "LD_PRELOAD=" + microvm::descriptorPath(microvm::kInitrdFd),
                                    microvm::descriptorPath(microvm::kDiskFd)};
    const auto words =
        microvm::libkrunCommand(microvm::descriptorPath(microvm::kKernelFd), {.kvm = true}, spec);
    all.insert(all.end(), words.begin() + 1, words.end());
    return all;
  }

  std::string order_;
  microvm::Tools tools_;
  std::vector<sock_filter> filter_;
};

class LibkrunSandbox : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto lack = linux::kvmLack(); !lack.what.empty()) GTEST_SKIP() << lack.what;
  }

  // The error of a failed start; "" on success.
  static Result<std::string> start(const std::string& order) {
    ProcessConfig config = testbed::config();
    const MicrovmConfig machines = configured();
    auto seccomp = TRY(linux::loadSeccomp(machines.policies + "/sandbox.json",
                                          {machines.policies + "/libkrun.json"}));
    config.cgroup_parent = "cloister-test-krun";
    config.guests = {std::make_shared<const Doubled>(order, TRY(microvm::readTools(machines)),
                                                     std::move(seccomp.filter))};
    const auto host = TRY(startProcessHost(config));
    boost::asio::io_context io(1);
    const auto runtime = makeProcessRuntime(io.get_executor(), host);
    model::PermitFields fields = *wire::decodePermit(testbed::permit().encoded);
    fields.runtime = "microvm";
    const auto made = async::runTask(io, runtime->provision({wire::encodePermit(fields), {}}));
    return made ? "" : made.error().message;
  }
};

TEST_F(LibkrunSandbox, HasAReadOnlyRootASocketAndNothingMore) {
  const auto why = start("hello");
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_EQ(*why, "");
}

TEST_F(LibkrunSandbox, ThatDoesNotStartSaysWhichFunctionFailed) {
  const auto why = start("fail:krun_add_vsock_port:22");
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_THAT(*why, HasSubstr("krun_add_vsock_port: Invalid argument"));
}

TEST_F(LibkrunSandbox, ThatEndsAtOnceTellsWhatTheMachineSaid) {
  const auto why = start("exit:126");
  ASSERT_TRUE(why) << why.error().message;
  EXPECT_THAT(*why, HasSubstr("a machine of /cloister-guest, with limits"));
  EXPECT_THAT(*why, HasSubstr("first program could not be executed"));
}

}  // namespace
}  // namespace cloister::runtime
