// SPDX-License-Identifier: Apache-2.0
#include "confine/become_workspace.h"

#include <sched.h>
#include <unistd.h>

#include <span>
#include <string>
#include <tuple>

#include "linux/message.h"
#include "linux/mounts.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

// Indices of the birth's descriptors.
constexpr size_t kMountAnswer = 0;
constexpr size_t kSharedSandbox = 1;

// The sandbox's programs cannot replace the root or /workspace: both are mounts, and the programs
// have no capability. Cloning /workspace gives the uppermost mount without the mounts that an
// agent's confinement rules put over paths within; the receiver applies those rules again. The
// kernel lets a process join only a pid namespace below its own, so a sandbox of another node, or
// another container of the host, is out of reach.
Result<Fd> takeMount(const Birth& birth) {
  TRY(linux::hideMemory());
  TRY(linux::joinNamespaces(birth.fds[kSharedSandbox].get(),
                            CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID));
  TRY(linux::hideMemory());
  return linux::cloneMount("/workspace");
}

}  // namespace

void becomeWorkspace(Birth& birth) {
  const auto mount = takeMount(birth);
  const int fd = mount ? mount->get() : -1;
  const std::string text = mount ? std::string(kDone) : mount.error().message.substr(0, kMaxAnswer);
  std::ignore = linux::sendMessage(birth.fds[kMountAnswer].get(), text,
                                   std::span<const int>(&fd, mount ? 1 : 0));
  ::_exit(0);
}

}  // namespace cloister::runtime
