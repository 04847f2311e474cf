// SPDX-License-Identifier: Apache-2.0
// Tests the confinement of a broken VMM. The test executes another program in QEMU's place, with
// QEMU's full confinement, and the program reports its abilities on the guest's pipe. Needs a
// /dev/kvm, but not a working one.
#include <unistd.h>

#include <algorithm>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "linux/kvm.h"
#include "linux/message.h"
#include "linux/seccomp.h"
#include "sandbox/host/host.h"
#include "sandbox/microvm/image.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using testing::HasSubstr;

constexpr char kTries[] = R"(
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def ask(fd, request):
    buffer = ctypes.create_string_buffer(4096)
    return 'ok' if libc.ioctl(fd, ctypes.c_ulong(request), buffer) >= 0 else os.strerror(ctypes.get_errno())
def tries(name, what):
    try: print(name, what() and '', end='; ')
    except OSError as e: print(name, e.strerror, end='; ')
print('dev', *sorted(os.listdir('/dev')), end='; ')
kvm = os.open('/dev/kvm', os.O_RDWR)
print('version', libc.ioctl(kvm, 0xae00, 0), end='; ')
machine = libc.ioctl(kvm, 0xae01, 0)
print('machine', machine >= 0, end='; ')
for name, request in (('irqchip', 0xae60), ('device', 0xc00caee0), ('dirty', 0x4010ae42), ('irqfd', 0x4020ae76)):
    print(name, ask(machine, request), end='; ')
tries('write', lambda: open('/workspace/x', 'w'))
tries('read only', lambda: open('/dev/x', 'w'))
tries('zero', lambda: os.open('/dev/zero', os.O_RDWR))
)";

// A VMM's place with KVM, whatever KVM is worth here.
class Impostor final : public Guest {
 public:
  explicit Impostor(std::vector<sock_filter> filter) : filter_(std::move(filter)) {}
  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] std::vector<std::string> weakened() const override { return {}; }
  [[nodiscard]] model::Finding finding() const override { return {}; }
  [[nodiscard]] uint32_t ready() const override { return 0; }
  [[nodiscard]] std::string noNetwork() const override { return "none in tests"; }
  void adjust(const model::Limits& /*limits*/, SandboxSpec& spec,
              linux::CgroupLimits& /*cgroup*/) const override {
    spec.guest_devices = true;
  }
  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& /*spec*/,
                                              const std::string& /*walls*/) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(
        linux::sealedData(microvm::encodeCommand({"/usr/bin/python3", "-I", "-S", "-c", kTries}))));
    for (uint32_t i = 0; i < microvm::kOpened; ++i)
      fds.push_back(TRY(linux::sealedData("")));
    fds.push_back(TRY(microvm::makeDevices()));
    fds.push_back(TRY(linux::sealedData(microvm::bytesOf(filter_))));
    return fds;
  }
  [[nodiscard]] uint32_t fileCount() const override { return 1 + microvm::kOpened + 2; }
  void describe(const SandboxSpec& /*spec*/, base::json::object& /*plan*/) const override {}

 private:
  std::vector<sock_filter> filter_;
};

// The program's message before its end, given as the reason of the failed start.
Result<std::string> saidByImpostor() {
  ProcessConfig config = testbed::config();
  auto vmm = TRY(
      linux::loadSeccomp(config.seccomp_policy, {base::shareDir() + "/policies/seccomp/vmm.json"}));
  config.cgroup_parent = "cloister-test-vmm";
  config.guests = {std::make_shared<const Impostor>(std::move(vmm.filter))};
  const auto host = TRY(startProcessHost(config));
  boost::asio::io_context io(1);
  const auto runtime = makeProcessRuntime(io.get_executor(), host);
  model::PermitFields fields = *wire::decodePermit(testbed::permit().encoded);
  fields.runtime = "microvm";
  const auto made = async::runTask(io, runtime->provision({wire::encodePermit(fields), {}}));
  return made ? "it started" : made.error().message;
}

TEST(VmmConfinement, HasItsDeviceAndNothingMore) {
  if (const auto lack = linux::kvmLack(); !lack.what.empty()) GTEST_SKIP() << lack.what;
  ASSERT_EQ(::access("/usr/bin/python3", X_OK), 0) << "install python3";
  const auto said = saidByImpostor();
  ASSERT_TRUE(said) << said.error().message;
  for (const char* part :
       {"dev kvm null pts shm urandom; ", "version 12; ", "machine True; ",
        "irqchip Operation not permitted; ", "device Operation not permitted; ",
        "dirty Operation not permitted; ", "irqfd Operation not permitted; ",
        "write Permission denied; ", "read only Read-only file system; ", "zero No such file"}) {
    EXPECT_THAT(*said, HasSubstr(part));
  }
}

TEST(VmmDevices, AreTheKindThatWasPlanned) {
  const auto steps = microvm::deviceSteps();
  EXPECT_EQ(std::ranges::count(steps, MountStep::Op::kDevice, &MountStep::op), 3);
  EXPECT_EQ(steps.back().op, MountStep::Op::kSeal);
  for (const MountStep& step : steps)
    EXPECT_FALSE(step.why.empty()) << step.target;
}

}  // namespace
}  // namespace cloister::runtime
