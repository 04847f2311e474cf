// SPDX-License-Identifier: Apache-2.0
// The rules of nf_tables in a sandbox's network namespace, as data. The rules choose the socket
// that hears a packet, and no more: the namespace has no device out, so a missing or wrong rule
// lets nothing out (ADR 0100).
#pragma once

#include <netinet/in.h>

#include <cstdint>

#include "confine/door_order.h"
#include "linux/nft.h"

namespace cloister::runtime {

// The log group of refused packets, in the sandbox's own namespace.
inline constexpr uint16_t kDoorLogGroup = 1;
// Where the listener is bound. A program cannot bind this port (no CAP_NET_BIND_SERVICE), and so
// finds every other port of the listener's address free.
inline constexpr uint16_t kListenerPort = 1;

in_addr listenerAddress(const DoorOrder& order);
in_addr ownAddress(const DoorOrder& order);

// `logs`: whether refused packets go to kDoorLogGroup.
linux::nft::Chain doorRules(const DoorOrder& order, bool logs);

// Rules for a namespace without traffic. The kernel patches its own code when the first namespace
// gets such a hook and when the last one loses it, which takes milliseconds. While these rules
// stand, a door does not wait for that.
linux::nft::Chain standingRules();

}  // namespace cloister::runtime
