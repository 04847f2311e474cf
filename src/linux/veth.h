// SPDX-License-Identifier: Apache-2.0
// A pair of virtual Ethernet interfaces, veth(4), within one network namespace: frames sent by one
// end arrive at the other. The functions need CAP_NET_ADMIN over the namespace of the socket
// `netlink` (NETLINK_ROUTE).
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace cloister::linux {

struct VethPair {
  std::string one;
  std::string other;
  std::array<uint8_t, 6> ethernet{};  // of both ends
};

// Makes the pair; both ends are down. kConflict: an interface has one of the names.
Result<> makeVeth(int netlink, const VethPair& pair);

// Brings an end up. No end asks for Ethernet addresses (ARP): the other end has its own.
Result<> bringUpVeth(int netlink, const std::string& name);

// The addresses of an end that is up.
struct VethRoute {
  std::string name;
  std::array<uint8_t, 6> ethernet{};
  in_addr address{};  // the end's only address
  in_addr gateway{};  // of every other address
};
// Gives the end its address, and routes everything over the end.
Result<> routeByVeth(int netlink, const VethRoute& route);

}  // namespace cloister::linux
