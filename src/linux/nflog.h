// SPDX-License-Identifier: Apache-2.0
// The kernel's log of packets that rules of nf_tables send to a log group (linux/nft.h). The
// packets in the log are hostile: a program, or a guest's kernel, wrote each byte behind the IP
// header. Reading is bounded and needs no capability; opening needs CAP_NET_ADMIN.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/network.h"
#include "base/result.h"

namespace cloister::linux {

struct LoggedPacket {
  enum class Transport : uint8_t { kTcp, kUdp, kIcmp, kOther };

  Transport transport = Transport::kOther;
  base::Address source;
  base::Address destination;
  uint16_t port = 0;  // the destination's; 0 where the packet has none, or not in its first part
  bool syn = false;   // TCP: an attempt to connect

  bool operator==(const LoggedPacket&) const = default;
};

// The name in records: "tcp", "udp", "icmp", "other".
std::string_view transportName(LoggedPacket::Transport transport);

// The log keeps this much of each packet: headers, and some extension headers of IPv6.
inline constexpr uint32_t kLoggedBytes = 128;
// Messages of a single read beyond this number are left out.
inline constexpr size_t kMaxLogged = 64;

// A socket that receives the log of `group` in the network namespace of this process, not blocking.
// The kernel's queue is bounded; packets beyond it are lost (LogRead::lost).
Result<Fd> openLog(uint16_t group);

struct LogRead {
  std::vector<LoggedPacket> packets;  // malformed ones are left out
  bool lost = false;                  // further packets were logged, and are unknown
};
// Reads one datagram. kUnavailable: none is there yet. Never blocks.
Result<LogRead> readLog(int socket);

// The packets in the bytes of a datagram.
std::vector<LoggedPacket> parseLog(std::string_view datagram);

}  // namespace cloister::linux
