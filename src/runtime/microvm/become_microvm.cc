// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/become_microvm.h"

#include <sys/resource.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "linux/process.h"
#include "runtime/microvm/command.h"
#include "runtime/microvm/devices.h"
#include "runtime/process/plan_codec.h"

namespace cloister::runtime {
namespace {

constexpr size_t kCommand = 1;  // of the birth's descriptors, then what QEMU opens

// The program's limits hold in the machine; QEMU's own are few.
SandboxSpec forVmm(const SandboxSpec& spec) {
  SandboxSpec own = spec;
  own.scratch_bytes = 1 << 20;
  own.scratch_inodes = 64;
  own.walled = false;  // nor do the agent's walls stand around it
  own.writes = model::Walls::Writes::kAll;
  own.limits = {};
  own.limit_count = 0;
  own.limits[own.limit_count++] = {RLIMIT_CORE, 1};
  own.limits[own.limit_count++] = {RLIMIT_NOFILE, 256};
  own.limits[own.limit_count++] = {RLIMIT_MEMLOCK, 64 << 10};
  return own;
}

Result<std::vector<std::string>> readCommand(int fd) {
  return microvm::decodeCommand(TRY(readPlan(fd)));
}

// What differs where the processor's own virtualisation is used: its device is in this process's
// /dev alone, and what may be asked of it comes on top of the sandboxes' filter.
Result<> useProcessor(Confinement& confinement, const Fd& devices, const Fd& filter) {
  const std::string bytes = TRY(readPlan(filter.get()));
  if (bytes.empty() || bytes.size() % sizeof(sock_filter) != 0) {
    return fail(Code::kInternal, "reading the VMM's filter: it is malformed");
  }
  confinement.filter.resize(bytes.size() / sizeof(sock_filter));
  std::memcpy(confinement.filter.data(), bytes.data(), bytes.size());
  confinement.landlock = microvm::deviceRules();
  confinement.proc.push_back(microvm::attachDevices(devices.get()));
  return {};
}

}  // namespace

void becomeMicrovm(Confinement confinement, Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  ConfineFds fds = confineFds(birth);
  const size_t complaints = birth.request.guest_fds;
  const size_t opened = kCommand + 1;
  for (size_t i = opened; i < opened + microvm::kOpened; ++i)
    fds.kept.push_back(std::move(birth.fds[i]));
  fds.output = std::move(birth.fds[complaints]);
  const auto command = readCommand(birth.fds[kCommand].get());
  Result<> equipped;
  if (spec.guest_devices) {
    const size_t devices = opened + microvm::kOpened;
    equipped = useProcessor(confinement, birth.fds[devices], birth.fds[devices + 1]);
  }
  const auto confined = confineSelf(confinement, forVmm(spec), fds);
  if (!confined) refuseToStart(confined.error());
  if (!equipped) refuseToStart(equipped.error());
  if (!command) refuseToStart(command.error());
  refuseToStart(linux::executeInPath(*command, {}));
}

}  // namespace cloister::runtime
