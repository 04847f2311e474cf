// SPDX-License-Identifier: Apache-2.0
// The network link of a virtual machine (ADR 0102): a tap interface in the network namespace of the
// machine's sandbox. The machine's packets reach the rules and the sockets of the sandbox's door,
// as packets of a sandbox without a machine do.
//
// The interface is made with the sandbox and is down: a machine that was made ahead reaches
// nothing. connectLink() brings the interface up, as the last step of opening a door.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "confine/door_order.h"
#include "linux/nft.h"

namespace cloister::runtime {

// The only tap interface of a sandbox. A VMM that keeps machines has the name in the kept state.
inline constexpr char kLinkName[] = "tap0";
// The Ethernet address of both ends.
inline constexpr std::array<uint8_t, 6> kLinkEthernet = {0x02, 0xC1, 0x05, 0x7E, 0x00, 0x01};
inline constexpr char kLinkEthernetText[] = "02:c1:05:7e:00:01";

// The machine's address, and where it sends everything: its router and name server. Both in host
// byte order, among the pool's kDoorAddresses.
uint32_t linkAddress(const DoorOrder& order);
uint32_t linkGateway(uint32_t address);

// The rules before all others, which bound what a hostile guest's frames reach. Without IPv6, and
// with the guest's own address as the only source.
std::vector<linux::nft::Rule> linkRules(const DoorOrder& order);

// For this process's network namespace, whose door has its rules.
Result<> connectLink(const DoorOrder& order);

// For results of such sandboxes.
inline constexpr char kWeakerLink[] =
    "attempts to connect over IPv6 are refused by the sandbox's own kernel, without a record";

}  // namespace cloister::runtime
