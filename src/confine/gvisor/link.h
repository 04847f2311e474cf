// SPDX-License-Identifier: Apache-2.0
// The network link of a gVisor sandbox (ADR 0101): a pair of interfaces, both in the sandbox's
// network namespace. runsc takes one end over, with its address and routes, for gVisor's own
// network stack. The other end leads to the rules and the sockets of the sandbox's door.
//
//   program ─ gVisor's stack ─ packet socket ─ eth0 ═══ kLinkName ─ rules, sockets of the door
//
// Until a door is opened, the namespace has no route back, no rule and no socket: a sandbox that
// was made ahead reaches nothing.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace cloister::runtime::gvisor {

// `address`: SandboxSpec::guest_link. In the process that becomes runsc: root of the user namespace
// that owns its network namespace, whose files are arranged.
Result<> makeLink(uint32_t address);

}  // namespace cloister::runtime::gvisor
