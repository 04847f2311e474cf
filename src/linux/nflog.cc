// SPDX-License-Identifier: Apache-2.0
#include "linux/nflog.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <arpa/inet.h>

#include "linux/netlink.h"

namespace cloister::linux {
namespace {

constexpr int kQueueBytes = 256 << 10;
// A datagram holds one packet, since each is sent at once; several fit all the same.
constexpr size_t kMostDatagram = size_t{16} << 10;

// The first bytes of the headers, RFC 791, 8200, 9293 and 768.
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kTcpFlags = 13;
constexpr uint8_t kSyn = 0x02;
constexpr uint8_t kAck = 0x10;
constexpr int kMostExtensions = 6;

uint8_t byteAt(std::string_view bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]);
}

uint16_t bigAt(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(byteAt(bytes, at) << 8 | byteAt(bytes, at + 1));
}

base::Address addressAt(std::string_view bytes, size_t at, bool v4) {
  sockaddr_storage storage{};
  if (v4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, bytes.data() + at, sizeof address.sin_addr);
    std::memcpy(&storage, &address, sizeof address);
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    std::memcpy(&address.sin6_addr, bytes.data() + at, sizeof address.sin6_addr);
    std::memcpy(&storage, &address, sizeof address);
  }
  return base::Address::of(storage).value_or(base::Address());
}

// `rest`: from the transport header on; empty in a later fragment.
void readTransport(LoggedPacket& packet, uint8_t protocol, std::string_view rest) {
  using enum LoggedPacket::Transport;
  if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6) packet.transport = kIcmp;
  if (protocol == IPPROTO_TCP) packet.transport = kTcp;
  if (protocol == IPPROTO_UDP) packet.transport = kUdp;
  const bool has_ports = packet.transport == kTcp || packet.transport == kUdp;
  if (has_ports && rest.size() >= 4) packet.port = bigAt(rest, 2);
  if (packet.transport == kTcp && rest.size() > kTcpFlags) {
    packet.syn = (byteAt(rest, kTcpFlags) & (kSyn | kAck)) == kSyn;
  }
}

std::optional<LoggedPacket> readIpv4(std::string_view bytes) {
  if (bytes.size() < kIpv4Header) return std::nullopt;
  const size_t header = size_t{byteAt(bytes, 0) & 0x0FU} * 4;
  if (header < kIpv4Header || header > bytes.size()) return std::nullopt;
  LoggedPacket packet;
  packet.source = addressAt(bytes, 12, true);
  packet.destination = addressAt(bytes, 16, true);
  const bool first = (bigAt(bytes, 6) & 0x1FFF) == 0;
  readTransport(packet, byteAt(bytes, 9), first ? bytes.substr(header) : std::string_view());
  return packet;
}

// Headers that stand before the transport header.
bool isExtension(uint8_t next) {
  return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS ||
         next == IPPROTO_FRAGMENT;
}

std::optional<LoggedPacket> readIpv6(std::string_view bytes) {
  if (bytes.size() < kIpv6Header) return std::nullopt;
  LoggedPacket packet;
  packet.source = addressAt(bytes, 8, false);
  packet.destination = addressAt(bytes, 24, false);
  uint8_t next = byteAt(bytes, 6);
  std::string_view rest = bytes.substr(kIpv6Header);
  for (int i = 0; i < kMostExtensions && isExtension(next) && rest.size() >= 8; ++i) {
    const bool fragment = next == IPPROTO_FRAGMENT;
    const bool later = fragment && (bigAt(rest, 2) & 0xFFF8) != 0;
    const size_t length = fragment ? 8 : (size_t{byteAt(rest, 1)} + 1) * 8;
    next = byteAt(rest, 0);
    rest = later || length > rest.size() ? std::string_view() : rest.substr(length);
  }
  readTransport(packet, next, rest);
  return packet;
}

std::optional<LoggedPacket> readPacket(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const uint8_t version = byteAt(bytes, 0) >> 4;
  if (version == 4) return readIpv4(bytes);
  if (version == 6) return readIpv6(bytes);
  return std::nullopt;
}

bool isLog(const NetlinkAnswer& message) {
  return message.type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) &&
         message.payload.size() >= sizeof(nfgenmsg);
}

std::optional<LoggedPacket> packetOf(const NetlinkAnswer& message) {
  std::string_view attributes = message.payload.substr(sizeof(nfgenmsg));
  for (NetlinkAttribute each; nextAttribute(attributes, each);) {
    if (each.type == NFULA_PAYLOAD) return readPacket(each.value);
  }
  return std::nullopt;
}

NetlinkMessages configuration(uint16_t group) {
  NetlinkMessages messages;
  const nfgenmsg header{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(group)};
  messages.begin(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, bytesOf(header));
  const nfulnl_msg_config_cmd bind{.command = NFULNL_CFG_CMD_BIND};
  messages.add(NFULA_CFG_CMD, bytesOf(bind));
  const nfulnl_msg_config_mode mode{
      .copy_range = htonl(kLoggedBytes), .copy_mode = NFULNL_COPY_PACKET, ._pad = 0};
  messages.add(NFULA_CFG_MODE, bytesOf(mode));
  messages.addBig32(NFULA_CFG_QTHRESH, 1);
  return messages;
}

}  // namespace

std::string_view transportName(LoggedPacket::Transport transport) {
  static constexpr std::string_view kNames[] = {"tcp", "udp", "icmp", "other"};
  return kNames[static_cast<size_t>(transport)];
}

Result<Fd> openLog(uint16_t group) {
  Fd socket = TRY(netlinkSocket(NETLINK_NETFILTER));
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kQueueBytes, sizeof kQueueBytes) != 0) {
    return failErrno("bounding the log of refused packets");
  }
  TRY(transact(socket.get(), configuration(group), "opening the log of refused packets"));
  return socket;
}

Result<LogRead> readLog(int socket) {
  std::array<char, kMostDatagram> buffer;
  sockaddr_nl from{};
  socklen_t size = sizeof from;
  const ssize_t n = ::recvfrom(socket, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC,
                               reinterpret_cast<sockaddr*>(&from), &size);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return fail(Code::kUnavailable, "reading the log of refused packets: nothing there yet");
  }
  if (n < 0 && errno == ENOBUFS) return LogRead{.packets = {}, .lost = true};
  if (n < 0) return failErrno("reading the log of refused packets");
  if (from.nl_pid != 0) return LogRead{};  // only the kernel's messages count
  const size_t got = std::min(static_cast<size_t>(n), buffer.size());
  return LogRead{.packets = parseLog({buffer.data(), got}), .lost = got < static_cast<size_t>(n)};
}

std::vector<LoggedPacket> parseLog(std::string_view datagram) {
  std::vector<LoggedPacket> packets;
  for (NetlinkAnswer message; packets.size() < kMaxLogged && nextMessage(datagram, message);) {
    if (!isLog(message)) continue;
    if (auto packet = packetOf(message)) packets.push_back(*packet);
  }
  return packets;
}

}  // namespace cloister::linux
