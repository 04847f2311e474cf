// SPDX-License-Identifier: Apache-2.0
#include "confine/microvm/become_microvm.h"

#include <sys/resource.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "confine/plan_codec.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

constexpr size_t kCommand = 1;  // index of the birth's descriptors; then the files that the VMM
                                // opens

// The program's limits hold in the machine; the VMM's own are few.
SandboxSpec forVmm(const SandboxSpec& spec) {
  SandboxSpec own = spec;
  own.scratch_bytes = 1 << 20;
  own.scratch_inodes = 64;
  own.walled = false;  // the agent's confinement rules do not apply to the VMM
  own.writes = model::Walls::Writes::kAll;
  own.limits = {};
  own.limit_count = 0;
  own.limits[own.limit_count++] = {RLIMIT_CORE, 1};
  // A descriptor for each file of the VMM's that its machine uses.
  own.limits[own.limit_count++] = {RLIMIT_NOFILE, spec.guest_shows ? 65'536U : 256U};
  own.limits[own.limit_count++] = {RLIMIT_MEMLOCK, 64 << 10};
  return own;
}

Result<std::vector<std::string>> readCommand(int fd) {
  return microvm::decodeCommand(TRY(readPlan(fd)));
}

// Takes the birth's descriptors in order.
class Given {
 public:
  Given(std::vector<Fd>& fds, size_t at) : fds_(fds), at_(at) {}
  Fd next() { return std::move(fds_[at_++]); }

 private:
  std::vector<Fd>& fds_;
  size_t at_;
};

// A filter that allows a VMM more than the sandboxes' filter.
Result<> useFilter(Confinement& confinement, const Fd& filter) {
  const std::string bytes = TRY(readPlan(filter.get()));
  if (bytes.empty() || bytes.size() % sizeof(sock_filter) != 0) {
    return fail(Code::kInternal, "reading the VMM's filter: it is malformed");
  }
  confinement.filter.resize(bytes.size() / sizeof(sock_filter));
  std::memcpy(confinement.filter.data(), bytes.data(), bytes.size());
  return {};
}

// Differences for hardware virtualisation: only this process's /dev has the device, and `filter`
// restricts its use in addition to the sandboxes' filter.
Result<> useProcessor(Confinement& confinement, const SandboxSpec& spec, const Fd& devices,
                      const Fd& filter) {
  TRY(useFilter(confinement, filter));
  confinement.landlock = microvm::vmmRules(spec);
  confinement.root.push_back(microvm::attachDevices(devices.get()));
  if (!spec.guest_shows) return {};
  for (MountStep& step : microvm::showRoot())
    confinement.root.push_back(std::move(step));
  return {};
}

}  // namespace

Error microvm::executeVmm(const std::vector<std::string>& command, bool given) {
  return given ? linux::executeFd(wire::kRunnerFd + 1, command, {})
               : linux::executeInPath(command, {});
}

void becomeMicrovm(Confinement confinement, Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  ConfineFds fds = confineFds(birth);
  fds.output = std::move(birth.fds[birth.request.guest_fds]);
  Given given(birth.fds, kCommand);
  const auto command = readCommand(given.next().get());
  for (size_t i = 0; i < microvm::kOpened + filesOf(spec.guest_begins); ++i)
    fds.kept.push_back(given.next());
  Fd link = spec.guest_link != 0 ? given.next() : Fd();
  if (link && !spec.guest_opens_link) fds.kept.push_back(std::move(link));
  if (spec.guest_program) confinement.runner = given.next();
  Fd devices;
  Result<> equipped;
  if (spec.guest_devices) {
    devices = given.next();
    equipped = useProcessor(confinement, spec, devices, given.next());
  } else if (spec.guest_link != 0) {
    equipped = useFilter(confinement, given.next());
  }
  const auto confined = confineSelf(confinement, forVmm(spec), fds);
  if (!confined) refuseToStart(confined.error());
  if (!equipped) refuseToStart(equipped.error());
  if (!command) refuseToStart(command.error());
  refuseToStart(microvm::executeVmm(*command, spec.guest_program));
}

}  // namespace cloister::runtime
