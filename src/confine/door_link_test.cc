// SPDX-License-Identifier: Apache-2.0
// The network link of a machine, with this test as the machine: it writes whatever frames it likes.
#include "confine/door_link.h"

#include <fcntl.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "confine/door.h"
#include "linux/in_network.h"
#include "linux/nflog.h"
#include "linux/tap.h"

namespace cloister::runtime {
namespace {

constexpr char kMachine[] = "198.18.0.3";
constexpr uint16_t kOwnPort = 40'000;

DoorOrder linkedOrder() {
  DoorOrder order = doorOrder("198.18.0.0/15", {}).value_or(DoorOrder());
  order.linked = true;
  return order;
}

template <class T>
std::string bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

in_addr address4(const std::string& text) {
  in_addr address{};
  ::inet_pton(AF_INET, text.c_str(), &address);
  return address;
}

// RFC 1071.
uint16_t sumOf(std::string data) {
  if (data.size() % 2 != 0) data.push_back('\0');
  uint32_t sum = 0;
  for (size_t at = 0; at < data.size(); at += 2) {
    uint16_t part = 0;
    std::memcpy(&part, data.data() + at, sizeof part);
    sum += part;
  }
  while (sum >> 16 != 0)
    sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

struct Frame {
  std::string ethernet = std::string(kLinkEthernet.begin(), kLinkEthernet.end());  // to whom
  uint16_t type = ETHERTYPE_IP;
  std::string payload{};

  [[nodiscard]] std::string whole() const {
    return ethernet + std::string(kLinkEthernet.begin(), kLinkEthernet.end()) + bytes(htons(type)) +
           payload;
  }
};

std::string packet(const std::string& from, const std::string& to, uint8_t protocol,
                   const std::string& payload) {
  ip header{};
  header.ip_v = 4;
  header.ip_hl = 5;
  header.ip_ttl = 64;
  header.ip_p = protocol;
  header.ip_len = htons(static_cast<uint16_t>(sizeof header + payload.size()));
  header.ip_src = address4(from);
  header.ip_dst = address4(to);
  header.ip_sum = sumOf(bytes(header));
  return bytes(header) + payload;
}

// A segment or datagram with its sum, which `field` is the place of.
std::string summed(const std::string& from, const std::string& to, uint8_t protocol,
                   std::string payload, size_t field) {
  const std::string pseudo = bytes(address4(from)) + bytes(address4(to)) +
                             std::string({'\0', static_cast<char>(protocol)}) +
                             bytes(htons(static_cast<uint16_t>(payload.size())));
  const uint16_t sum = sumOf(pseudo + payload);
  std::memcpy(payload.data() + field, &sum, sizeof sum);
  return packet(from, to, protocol, payload);
}

std::string segment(const std::string& from, const std::string& to, uint16_t port, uint8_t flags,
                    uint32_t sequence = 1, uint32_t acknowledged = 0) {
  tcphdr header{};
  header.th_sport = htons(kOwnPort);
  header.th_dport = htons(port);
  header.th_seq = htonl(sequence);
  header.th_ack = htonl(acknowledged);
  header.th_off = 5;
  header.th_flags = flags;
  header.th_win = htons(64'000);
  return summed(from, to, IPPROTO_TCP, bytes(header), offsetof(tcphdr, th_sum));
}

std::string datagram(const std::string& from, const std::string& to, uint16_t port) {
  udphdr header{};
  header.uh_sport = htons(kOwnPort);
  header.uh_dport = htons(port);
  header.uh_ulen = htons(sizeof header + 1);
  return summed(from, to, IPPROTO_UDP, bytes(header) + "?", offsetof(udphdr, uh_sum));
}

struct Machine {
  Fd link;
  DoorSockets door;

  void send(const Frame& frame) const {
    const std::string all = frame.whole();
    static_cast<void>(::write(link.get(), all.data(), all.size()));
  }
  // The next packet of IPv4 from the host; empty after two seconds.
  [[nodiscard]] std::string next() const {
    std::array<char, 2048> buffer;
    for (pollfd wanted{link.get(), POLLIN, 0}; ::poll(&wanted, 1, 2000) == 1;) {
      const ssize_t n = ::read(link.get(), buffer.data(), buffer.size());
      if (n < 14) return {};
      if (buffer[12] == 8 && buffer[13] == 0) {
        return std::string(buffer.data() + 14, static_cast<size_t>(n) - 14);
      }
    }
    return {};
  }
  [[nodiscard]] uint8_t protocolOf(const std::string& packet) const {
    return packet.size() > sizeof(ip) ? static_cast<uint8_t>(packet[9]) : 0;
  }
  // Whether a refused datagram is the next to be answered: nothing before it was.
  [[nodiscard]] bool isAnsweredNext() const {
    send({.payload = datagram(kMachine, "203.0.113.77", 9)});
    const std::string answer = next();
    return protocolOf(answer) == IPPROTO_ICMP && answer[sizeof(ip)] == ICMP_DEST_UNREACH &&
           answer[sizeof(ip) + 1] == ICMP_PORT_UNREACH;
  }
};

int withMachine(const std::function<int(Machine&)>& body) {
  return linux::inNetwork([&] {
    const Fd devices(::open("/dev/net", O_PATH | O_DIRECTORY | O_CLOEXEC));
    Machine machine;
    auto link = linux::makeTap(devices.get(), kLinkName);
    if (!link) return linux::kNoNamespaces;
    machine.link = *std::move(link);
    auto door = openDoor(linkedOrder());
    if (!door && door.error().message.contains("tproxy")) return linux::kNoNamespaces;
    if (!door) return 100;
    machine.door = *std::move(door);
    return body(machine);
  });
}

#define EXPECT_MACHINE(code)                                                                  \
  const int exit_code = (code);                                                               \
  if (exit_code == linux::kNoNamespaces) GTEST_SKIP() << "no tap interfaces with doors here"; \
  EXPECT_EQ(exit_code, 0)

TEST(DoorLink, IsClosedBeforeTheDoorOpens) {
  const int exit_code = linux::inNetwork([] {
    const Fd devices(::open("/dev/net", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto link = linux::makeTap(devices.get(), kLinkName);
    if (!link) return linux::kNoNamespaces;
    const std::string frame = Frame{.payload = datagram(kMachine, "203.0.113.5", 53)}.whole();
    return ::write(link->get(), frame.data(), frame.size()) < 0 && errno == EIO ? 0 : 1;
  });
  if (exit_code == linux::kNoNamespaces) GTEST_SKIP() << "no tap interfaces here";
  EXPECT_EQ(exit_code, 0);
}

TEST(DoorLink, IsNeededByAnOrderThatNamesIt) {
  const int exit_code = linux::inNetwork([] {
    const auto door = openDoor(linkedOrder());
    if (!door && door.error().message.contains("tproxy")) return linux::kNoNamespaces;
    return !door && door.error().code == Code::kNotFound ? 0 : 1;
  });
  if (exit_code == linux::kNoNamespaces) GTEST_SKIP() << "no doors with tproxy here";
  EXPECT_EQ(exit_code, 0);
}

TEST(DoorLink, CarriesAConnectionToTheListener) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    machine.send({.payload = segment(kMachine, "198.18.0.77", 443, TH_SYN)});
    const std::string answer = machine.next();
    if (machine.protocolOf(answer) != IPPROTO_TCP) return 1;
    tcphdr header{};
    std::memcpy(&header, answer.data() + sizeof(ip), sizeof header);
    if ((header.th_flags & (TH_SYN | TH_ACK | TH_RST)) != (TH_SYN | TH_ACK)) return 2;
    if (answer.substr(12, 4) != bytes(address4("198.18.0.77"))) return 3;
    machine.send(
        {.payload = segment(kMachine, "198.18.0.77", 443, TH_ACK, 2, ntohl(header.th_seq) + 1)});
    if (!linux::readable(machine.door.listeners[0].get())) return 4;
    const Fd peer(::accept4(machine.door.listeners[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    return linux::ownEnd(peer.get()) == "198.18.0.77 443" ? 0 : 5;
  }));
}

TEST(DoorLink, CarriesQuestionsToTheNameServer) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    for (const char* server : {"198.18.0.1", "203.0.113.53"}) {
      machine.send({.payload = datagram(kMachine, server, 53)});
      char question = 0;
      if (!linux::readable(machine.door.dns.get())) return 1;
      if (::recv(machine.door.dns.get(), &question, 1, 0) != 1 || question != '?') return 2;
    }
    return 0;
  }));
}

bool isLogged(const DoorSockets& door, const char* destination) {
  while (linux::readable(door.log.get())) {
    const auto read = linux::readLog(door.log.get());
    if (!read) return false;
    for (const linux::LoggedPacket& each : read->packets) {
      if (each.destination == *base::Address::parse(destination)) return true;
    }
  }
  return false;
}

TEST(DoorLink, RefusesAtOnceAndLogs) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    machine.send({.payload = segment(kMachine, "169.254.169.254", 80, TH_SYN)});
    const std::string answer = machine.next();
    if (machine.protocolOf(answer) != IPPROTO_TCP) return 1;
    if ((static_cast<uint8_t>(answer[sizeof(ip) + 13]) & TH_RST) == 0) return 2;
    if (!machine.door.log) return 0;  // the kernel has none
    return isLogged(machine.door, "169.254.169.254") ? 0 : 3;
  }));
}

// Of other protocols nothing reaches the host's stack, not even at the door's own addresses.
TEST(DoorLink, RefusesOtherProtocols) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    icmphdr echo{};
    echo.type = ICMP_ECHO;
    echo.checksum = sumOf(bytes(echo));
    for (const char* to : {"198.18.0.2", "198.18.0.1", "203.0.113.5"}) {
      for (const int protocol : {IPPROTO_ICMP, IPPROTO_GRE, IPPROTO_SCTP, IPPROTO_ESP}) {
        machine.send(
            {.payload = packet(kMachine, to, static_cast<uint8_t>(protocol), bytes(echo))});
        const std::string answer = machine.next();
        if (machine.protocolOf(answer) != IPPROTO_ICMP) return protocol;
        if (answer[sizeof(ip)] != ICMP_DEST_UNREACH) return 200;
      }
    }
    machine.send({.payload = segment(kMachine, "198.18.0.2", 22, TH_SYN)});
    return machine.protocolOf(machine.next()) == IPPROTO_TCP ? 0 : 201;
  }));
}

// The kernel's limit of one answer a second would let clients of QUIC wait.
TEST(DoorLink, RefusesEachOfManyDatagrams) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    for (int i = 1; i <= 60; ++i)
      if (!machine.isAnsweredNext()) return i;
    return 0;
  }));
}

// The packet with its sums, in two parts, of which the first has eight bytes.
std::vector<std::string> fragmentsOf(const std::string& whole) {
  constexpr uint16_t kMore = IP_MF;
  constexpr size_t kFirst = 8;
  const auto part = [&](size_t at, size_t size, uint16_t offset) {
    ip header{};
    std::memcpy(&header, whole.data(), sizeof header);
    header.ip_off = htons(offset);
    header.ip_len = htons(static_cast<uint16_t>(sizeof header + size));
    header.ip_sum = 0;
    header.ip_sum = sumOf(bytes(header));
    return bytes(header) + whole.substr(sizeof header + at, size);
  };
  const size_t rest = whole.size() - sizeof(ip) - kFirst;
  return {part(0, kFirst, kMore), part(kFirst, rest, kFirst / 8)};
}

std::vector<Frame> hostileFrames() {
  const std::string all(6, '\xFF');
  const std::string udp = datagram(kMachine, "203.0.113.5", 443);
  std::vector<Frame> frames;
  // Sources that are others': the host's ends, the loopback's, anybody's.
  for (const char* source : {"198.18.0.2", "198.18.0.1", "127.0.0.1", "203.0.113.9", "0.0.0.0"}) {
    frames.push_back({.payload = datagram(source, "203.0.113.5", 443)});
    frames.push_back({.payload = segment(source, "198.18.0.77", 443, TH_SYN)});
    frames.push_back({.payload = segment(source, "198.18.0.77", 443, TH_ACK)});
  }
  for (const char* to :
       {"127.0.0.1", "127.9.9.9", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1"}) {
    frames.push_back({.payload = datagram(kMachine, to, 53)});
    frames.push_back({.payload = segment(kMachine, to, 443, TH_SYN)});
  }
  frames.push_back({.ethernet = all, .payload = udp});
  frames.push_back({.ethernet = std::string("\x01\x00\x5E\x00\x00\x01", 6), .payload = udp});
  frames.push_back({.ethernet = std::string("\x02\x00\x00\x00\x00\x09", 6), .payload = udp});
  const std::string asks("\x00\x01\x08\x00\x06\x04\x00\x01", 8);
  frames.push_back({.ethernet = all,
                    .type = ETHERTYPE_ARP,
                    .payload = asks + std::string(kLinkEthernet.begin(), kLinkEthernet.end()) +
                               bytes(address4(kMachine)) + std::string(6, '\0') +
                               bytes(address4("198.18.0.1"))});
  // A neighbour solicitation's head is enough for the rules, which look no further.
  std::string ipv6("\x60\x00\x00\x00\x00\x00\x3A\xFF", 8);
  frames.push_back({.type = ETHERTYPE_IPV6, .payload = ipv6 + std::string(32, '\x20')});
  frames.push_back({.type = ETHERTYPE_VLAN, .payload = std::string(64, '\0')});
  frames.push_back({.payload = "\x45"});
  for (const std::string& each : fragmentsOf(datagram(kMachine, "198.18.0.1", 53)))
    frames.push_back({.payload = each});
  frames.push_back({.payload = packet("1.2.3.4", kMachine, 4, udp)});  // IP in IP
  return frames;
}

TEST(DoorLink, AnswersNoFrameThatIsNotTheMachines) {
  EXPECT_MACHINE(withMachine([](Machine& machine) {
    int number = 0;
    for (const Frame& frame : hostileFrames()) {
      ++number;
      machine.send(frame);
      if (!machine.isAnsweredNext()) return number;
      pollfd heard[] = {{machine.door.listeners[0].get(), POLLIN, 0},
                        {machine.door.dns.get(), POLLIN, 0}};
      if (::poll(heard, 2, 0) != 0) return 100 + number;
    }
    return 0;
  }));
}

TEST(DoorLink, HasItsAddressesAmongTheDoors) {
  const DoorOrder order = linkedOrder();
  EXPECT_EQ(linkAddress(order), 0xC6120003U);
  EXPECT_EQ(linkGateway(linkAddress(order)), 0xC6120001U);
  EXPECT_LT(linkAddress(order), order.pool + kDoorAddresses);
  for (const linux::nft::Rule& rule : linkRules(order))
    EXPECT_FALSE(rule.why.empty());
}

}  // namespace
}  // namespace cloister::runtime
