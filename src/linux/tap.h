// SPDX-License-Identifier: Apache-2.0
// A tap interface: the host's end of a virtual machine's network link, whose other end is a
// descriptor on which a VMM reads and writes Ethernet frames (Documentation/networking/tuntap.rst
// of the kernel). The frames come from a hostile guest, so the link has no ARP and no IPv6, and no
// more of the host's IP stack than a router's side of a point-to-point link.
//
// The functions act on the network namespace of the calling process, and need CAP_NET_ADMIN there.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// The file name of the device in /dev/net, and its numbers (the kernel's devices.txt).
inline constexpr char kTunName[] = "tun";
inline constexpr unsigned kTunMajor = 10;
inline constexpr unsigned kTunMinor = 200;

// Opens the device kTunName in the directory open at `directory`, and makes an interface with the
// name. The interface is down: the kernel refuses each frame (EIO) until connectTap(). It is gone
// with the descriptor. Frames have no header in front (IFF_NO_PI, no IFF_VNET_HDR).
Result<Fd> makeTap(int directory, std::string_view name);

// Lets the user attach to the interface by its name, once the descriptor is closed. The interface
// is then gone with its network namespace.
Result<> leaveTap(const Fd& tap, uint32_t user);

struct TapLink {
  std::string name;
  // The address of both ends. Neither end asks for the other's (ARP), since both know it.
  std::array<uint8_t, 6> ethernet{};
  in_addr guest{};  // the guest's only address
  in_addr host{};   // from which the host answers: an address of `lo`
};
// Brings the interface up, with a route to the guest. `netlink`: a socket of NETLINK_ROUTE.
// kNotFound: there is no such interface.
Result<> connectTap(int netlink, const TapLink& link);

}  // namespace cloister::linux
