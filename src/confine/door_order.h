// SPDX-License-Identifier: Apache-2.0
// The parameters of a sandbox's door (ADR 0100), as plain data: they travel as bytes from the node
// to the spawner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace cloister::runtime {

struct DoorOrder {
  static constexpr size_t kMaxPorts = 64;

  // The network of synthetic addresses, of IPv4. Its second address (.1) is the listener's, its
  // third (.2) the sandbox's own. A name never gets the first kDoorAddresses addresses.
  uint32_t pool = 0;  // in host byte order
  uint32_t pool_bits = 0;
  // Destination ports within the network. `only_ports` is 1: no others reach the listener; the
  // kernel resets and logs them. 0: every port does, since later plans may have other ports; a
  // kernel without tproxy has listeners for these first, and for the usual ones where there is
  // room.
  uint32_t only_ports = 0;
  uint32_t port_count = 0;
  std::array<uint16_t, kMaxPorts> ports{};
  // Whether the sandbox is a virtual machine with a network link (door_link.h).
  bool linked = false;

  friend bool operator==(const DoorOrder&, const DoorOrder&) = default;
};

inline constexpr uint32_t kDoorAddresses = 16;
inline constexpr uint16_t kDnsPort = 53;
// For resolv.conf. The door answers from this machine at once, so a second without an answer is a
// lost one, as at a restart of cloister-egress or above the rate of look-ups: by default programs
// wait five seconds, for each name.
inline constexpr std::string_view kDnsOptions = "options timeout:1 attempts:5\n";
// The explicit proxy of cloister-egress. Each door has this port and kDnsPort besides its own.
inline constexpr uint16_t kProxyPort = 3128;
// A kernel without tproxy has listeners for these in every door with room for them.
inline constexpr std::array<uint16_t, 5> kUsualPorts = {22, 80, 443, 8080, 8443};
bool isUsualPort(uint16_t port);

// `pool` is like "198.18.0.0/15": IPv4, 8 to 24 bits. More than kMaxPorts ports, or none: every
// port. kInvalid for another network.
Result<DoorOrder> doorOrder(std::string_view pool, std::span<const uint16_t> ports);
// Every port, the first kMaxPorts of `first` before the others.
Result<DoorOrder> doorOrderForAll(std::string_view pool, std::span<const uint16_t> first);

// Whether the network and the ports are within their bounds.
bool isSound(const DoorOrder& order);

}  // namespace cloister::runtime
