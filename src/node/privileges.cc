// SPDX-License-Identifier: Apache-2.0
#include "node/privileges.h"

#include <linux/capability.h>

#include "linux/credentials.h"
#include "linux/seccomp.h"

namespace cloister::node {
namespace {

struct NeededCapability {
  int number;
  const char* why;
};

// ADR 0098 has the survey. No part of the node uses any other capability.
constexpr NeededCapability kNeededCapabilities[] = {
    {CAP_CHOWN, "gives the control socket to the control plane, and a workspace to its user"},
    {CAP_DAC_OVERRIDE, "enters directories of other users: the state, images, workspaces on disk"},
    {CAP_DAC_READ_SEARCH, "reads an image's files, whoever owns them, for its digest"},
    {CAP_KILL, "ends sandboxes, which are other users'"},
    {CAP_SETGID, "makes sandboxes as groups of their own"},
    {CAP_SETUID, "makes sandboxes as users of their own, and writes their id maps"},
    {CAP_SETPCAP, "drops capabilities, and keeps the rest while it is another user"},
    {CAP_NET_BIND_SERVICE, "binds port 53 in a sandbox's network, for its door"},
    {CAP_NET_ADMIN, "brings up the loopback interface of a sandbox's network, and opens its door"},
    {CAP_SYS_CHROOT, "enters the roots that it builds"},
    {CAP_SYS_PTRACE, "reads /proc/PID/io on cgroup v1, and enters a sandbox's namespaces"},
    {CAP_SYS_ADMIN, "makes namespaces and mounts, and keys of workspaces on disk"},
    {CAP_MKNOD, "makes the devices of a root"},
    {CAP_SETFCAP, "maps root of a container into a sandbox, where it has no other users"},
};

}  // namespace

uint32_t keptCapabilities() {
  uint32_t kept = 0;
  for (const NeededCapability& each : kNeededCapabilities)
    kept |= uint32_t{1} << each.number;
  return kept;
}

Result<> dropPrivileges(const std::string& filter) {
  const linux::SeccompProgram program = TRY(linux::loadSeccomp(filter));
  TRY(linux::keepCapabilities(keptCapabilities()));
  return linux::installSeccomp(program.filter);
}

}  // namespace cloister::node
