// SPDX-License-Identifier: Apache-2.0
#include "linux/nflog.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "linux/in_network.h"
#include "linux/netlink.h"

namespace cloister::linux {
namespace {

using enum LoggedPacket::Transport;

std::string logOf(const std::vector<std::string>& packets) {
  NetlinkMessages messages;
  for (const std::string& packet : packets) {
    messages.begin(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET, 0, std::string_view("\x02\0\0\1", 4));
    messages.addText(NFULA_PREFIX, "x");
    messages.add(NFULA_PAYLOAD, packet);
  }
  return messages.bytes();
}

// From 198.18.0.2 to 203.0.113.5. `words`: 5, or more with options.
std::string ipv4(uint8_t protocol, const std::string& rest, uint8_t words = 5,
                 uint16_t fragment = 0) {
  std::string packet(size_t{words} * 4, '\0');
  packet[0] = static_cast<char>(0x40 | words);
  packet[6] = static_cast<char>(fragment >> 8);
  packet[7] = static_cast<char>(fragment);
  packet[9] = static_cast<char>(protocol);
  packet.replace(12, 8, std::string("\xC6\x12\0\x02\xCB\0\x71\x05", 8));
  return packet + rest;
}

// From ::1 to 2001:db8::5.
std::string ipv6(uint8_t next, const std::string& rest) {
  std::string packet(40, '\0');
  packet[0] = 0x60;
  packet[6] = static_cast<char>(next);
  packet[23] = 1;
  packet.replace(24, 4, std::string("\x20\x01\x0D\xB8", 4));
  packet[39] = 5;
  return packet + rest;
}

std::string tcp(uint16_t port, char flags) {
  std::string header(20, '\0');
  header[2] = static_cast<char>(port >> 8);
  header[3] = static_cast<char>(port);
  header[13] = flags;
  return header;
}

LoggedPacket only(const std::string& packet) {
  const auto packets = parseLog(logOf({packet}));
  EXPECT_EQ(packets.size(), 1U);
  return packets.empty() ? LoggedPacket() : packets.front();
}

TEST(Nflog, TellsTransportDestinationAndPort) {
  const LoggedPacket packet = only(ipv4(IPPROTO_TCP, tcp(443, 0x02)));
  EXPECT_EQ(packet.transport, kTcp);
  EXPECT_EQ(packet.source.text(), "198.18.0.2");
  EXPECT_EQ(packet.destination.text(), "203.0.113.5");
  EXPECT_EQ(packet.port, 443);
  EXPECT_TRUE(packet.syn);
  EXPECT_EQ(transportName(packet.transport), "tcp");
  EXPECT_FALSE(only(ipv4(IPPROTO_TCP, tcp(443, 0x12))).syn);
  const LoggedPacket udp = only(ipv6(IPPROTO_UDP, std::string("\0\x07\x01\xBB", 4)));
  EXPECT_EQ(udp.transport, kUdp);
  EXPECT_EQ(udp.destination.text(), "2001:db8::5");
  EXPECT_EQ(udp.port, 443);
  EXPECT_EQ(only(ipv4(IPPROTO_ICMP, "\x08")).transport, kIcmp);
  EXPECT_EQ(only(ipv6(IPPROTO_ICMPV6, "\x80")).transport, kIcmp);
  EXPECT_EQ(only(ipv4(132, "")).transport, kOther);
}

TEST(Nflog, PortsAreBehindOptionsAndExtensions) {
  EXPECT_EQ(only(ipv4(IPPROTO_TCP, tcp(7, 2), 15)).port, 7);
  const std::string hop("\x3C\0\0\0\0\0\0\0", 8);  // destination options follow
  const std::string options = std::string("\x06\x01", 2) + std::string(14, '\0');
  EXPECT_EQ(only(ipv6(IPPROTO_HOPOPTS, hop + options + tcp(8, 2))).port, 8);
  const std::string first("\x11\0\0\x01\0\0\0\0", 8);
  EXPECT_EQ(only(ipv6(IPPROTO_FRAGMENT, first + std::string("\0\1\0\x35", 4))).port, 53);
}

TEST(Nflog, LaterFragmentsHaveNoPort) {
  const LoggedPacket packet = only(ipv4(IPPROTO_TCP, tcp(7, 2), 5, 0x2001));
  EXPECT_EQ(packet.transport, kTcp);
  EXPECT_EQ(packet.port, 0);
  EXPECT_FALSE(packet.syn);
  const std::string later("\x11\0\0\x09\0\0\0\0", 8);
  EXPECT_EQ(only(ipv6(IPPROTO_FRAGMENT, later + std::string("\0\1\0\x35", 4))).port, 0);
}

TEST(Nflog, MalformedPacketsAreLeftOut) {
  for (const std::string& odd :
       {std::string(), std::string("\x45"), std::string(20, '\0'), std::string(40, '\x50'),
        ipv4(IPPROTO_TCP, "", 15).substr(0, 24), std::string(1, '\x44') + std::string(40, '\0'),
        ipv6(6, "").substr(0, 39)}) {
    EXPECT_TRUE(parseLog(logOf({odd})).empty()) << base::toHex(odd);
  }
}

// Every prefix, and every single changed byte, of a log with packets of all kinds.
TEST(Nflog, OddBytesAreBounded) {
  const std::string hop("\x3C\0\0\0\0\0\0\0", 8);
  const std::string whole = logOf({ipv4(IPPROTO_TCP, tcp(443, 2), 6), ipv4(IPPROTO_UDP, "\1\2"),
                                   ipv6(IPPROTO_HOPOPTS, hop + hop + hop), ipv6(17, "\1\2\3\4")});
  EXPECT_EQ(parseLog(whole).size(), 4U);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE(parseLog(std::string(whole.substr(0, i))).size(), 4U);
    for (const int value : {0x00, 0x01, 0x4F, 0x60, 0x7F, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      EXPECT_LE(parseLog(changed).size(), 8U);
    }
  }
}

TEST(Nflog, ADatagramGivesABoundedNumber) {
  const std::vector<std::string> many(kMaxLogged + 10, ipv4(IPPROTO_ICMP, "\x08"));
  EXPECT_EQ(parseLog(logOf(many)).size(), kMaxLogged);
}

TEST(Nflog, AnEmptyLogIsUnavailable) {
  const int code = inNetwork([] {
    const auto log = openLog(1);
    if (!log) return 1;
    const auto read = readLog(log->get());
    if (read || read.error().code != Code::kUnavailable) return 2;
    return openLog(1) ? 3 : 0;  // a group has one reader
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace cloister::linux
