// SPDX-License-Identifier: Apache-2.0
// Network and UTS namespaces: the little that a sandbox without a network needs.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// The network namespace of this process; ioctl SIOCGSKNS, which needs CAP_NET_ADMIN there.
Result<Fd> ownNetwork();

// Enters a new network namespace whose `lo` is up; unshare(2), netdevice(7).
Result<> enterNewNetwork();

// Brings up `lo` of the present network namespace; netdevice(7).
Result<> raiseLoopback();

// Enters the network namespace `network`; setns(2).
Result<> enterNetwork(int network);

// Sets the host name of this UTS namespace; sethostname(2).
Result<> nameHost(std::string_view name);

}  // namespace cloister::linux
