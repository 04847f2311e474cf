// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/become_microvm.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "linux/process.h"
#include "runtime/microvm/command.h"

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
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failErrno("looking at the machine's command");
  std::string text(static_cast<size_t>(status.st_size), '\0');
  if (::pread(fd, text.data(), text.size(), 0) != status.st_size) {
    return failErrno("reading the machine's command");
  }
  return microvm::decodeCommand(text);
}

}  // namespace

void becomeMicrovm(const Confinement& confinement, Birth& birth) {
  ConfineFds fds = confineFds(birth);
  const size_t complaints = birth.request.guest_fds;
  for (size_t i = kCommand + 1; i < complaints; ++i)
    fds.kept.push_back(std::move(birth.fds[i]));
  fds.output = std::move(birth.fds[complaints]);
  const auto command = readCommand(birth.fds[kCommand].get());
  const auto confined = confineSelf(confinement, forVmm(birth.request.spec), fds);
  if (!confined) refuseToStart(confined.error());
  if (!command) refuseToStart(command.error());
  refuseToStart(linux::executeInPath(*command, {}));
}

}  // namespace cloister::runtime
