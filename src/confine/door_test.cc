// SPDX-License-Identifier: Apache-2.0
// Doors in network namespaces of the test's own.
#include "confine/door.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "confine/become_door.h"
#include "confine/door_rules.h"
#include "linux/in_network.h"
#include "linux/netlink.h"
#include "linux/nflog.h"
#include "linux/sock_diag.h"

namespace cloister::runtime {
namespace {

using linux::attempt;
using linux::LoggedPacket;
using enum LoggedPacket::Transport;

DoorOrder orderWith(std::vector<uint16_t> ports = {}) {
  return doorOrder("198.18.0.0/15", ports).value_or(DoorOrder());
}

// The exit code of `body` beside a door; kNoNamespaces also where the kernel has no tproxy.
int beside(const DoorOrder& order, const std::function<int(DoorSockets&)>& body) {
  return linux::inNetwork([&] {
    auto door = openDoor(order);
    if (!door) return 100;
    if (!door->transparent || !door->log) return linux::kNoNamespaces;
    return body(*door);
  });
}

#define EXPECT_ALL_WELL(code)                                                         \
  const int exit_code = (code);                                                       \
  if (exit_code == linux::kNoNamespaces) GTEST_SKIP() << "no doors with tproxy here"; \
  EXPECT_EQ(exit_code, 0)

std::string accepted(const Fd& listener) {
  if (!linux::readable(listener.get())) return "none";
  const Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return peer ? linux::ownEnd(peer.get()) : std::strerror(errno);
}

bool logs(const DoorSockets& door, const LoggedPacket& wanted) {
  while (linux::readable(door.log.get())) {
    const auto read = linux::readLog(door.log.get());
    if (!read) return false;
    for (const LoggedPacket& each : read->packets) {
      if (each.transport == wanted.transport && each.destination == wanted.destination &&
          each.port == wanted.port && each.syn == wanted.syn)
        return true;
    }
  }
  return false;
}

LoggedPacket to(LoggedPacket::Transport transport, const char* address, uint16_t port = 0) {
  return {.transport = transport,
          .source = {},
          .destination = *base::Address::parse(address),
          .port = port,
          .syn = transport == kTcp};
}

TEST(Door, AConnectionKeepsItsDestination) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    const auto made = attempt(SOCK_STREAM, "198.18.0.77", 443);
    if (made.error != 0 || !linux::readable(door.listeners[0].get())) return 1;
    const Fd peer(::accept4(door.listeners[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (linux::ownEnd(peer.get()) != "198.18.0.77 443") return 2;
    if (!linux::ownEnd(made.socket.get()).starts_with("198.18.0.2 ")) return 3;
    char byte = 0;
    if (::send(made.socket.get(), "a", 1, 0) != 1 || ::recv(peer.get(), &byte, 1, 0) != 1) return 4;
    if (::send(peer.get(), "b", 1, 0) != 1 || ::recv(made.socket.get(), &byte, 1, 0) != 1) return 5;
    return byte == 'b' ? 0 : 6;
  }));
}

TEST(Door, OnlyPortsOfTheOrderReachTheListener) {
  EXPECT_ALL_WELL(beside(orderWith({443, 8000}), [](DoorSockets& door) {
    for (const uint16_t port : {443, 8000, 3128}) {
      if (attempt(SOCK_STREAM, "198.19.255.1", port).error != 0) return 1;
      if (accepted(door.listeners[0]) != "198.19.255.1 " + std::to_string(port)) return 2;
    }
    if (attempt(SOCK_STREAM, "198.19.255.1", 444).error != ECONNREFUSED) return 3;
    return logs(door, to(kTcp, "198.19.255.1", 444)) ? 0 : 4;
  }));
}

TEST(Door, LiteralAddressesAreResetAndLogged) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    for (const char* address : {"203.0.113.5", "169.254.169.254", "10.0.0.1", "198.17.255.255",
                                "2001:db8::5", "fe00::1"}) {
      if (attempt(SOCK_STREAM, address, 443).error != ECONNREFUSED) return 1;
      if (!logs(door, to(kTcp, address, 443))) return 2;
    }
    pollfd listens{door.listeners[0].get(), POLLIN, 0};
    return ::poll(&listens, 1, 0) == 0 ? 0 : 3;
  }));
}

TEST(Door, DatagramsAreRefusedAtOnceAndLogged) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    for (const char* address : {"203.0.113.5", "198.18.0.77", "2001:db8::5"}) {
      if (linux::ask(address, 443) != ECONNREFUSED) return 1;
      if (!logs(door, to(kUdp, address, 443))) return 2;
    }
    return linux::ask("2001:db8::5", 53) == ECONNREFUSED ? 0 : 3;
  }));
}

TEST(Door, OtherProtocolsAreLogged) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    for (const auto& [protocol, transport] :
         {std::pair(IPPROTO_ICMP, kIcmp), std::pair(IPPROTO_SCTP, kOther)}) {
      const Fd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocol));
      const auto where = linux::socketAddress("203.0.113.5", 0);
      const char echo[16] = {8};
      if (::sendto(raw.get(), echo, sizeof echo, 0, where.get(), where.size) != sizeof echo)
        return 1;
      if (!logs(door, to(transport, "203.0.113.5"))) return 2;
    }
    return 0;
  }));
}

// Answers a question from the address that was asked.
bool answerDns(const Fd& dns) {
  if (!linux::readable(dns.get())) return false;
  char question = 0;
  iovec part{&question, 1};
  linux::SocketAddress from;
  alignas(cmsghdr) char control[256];
  msghdr message{};
  message.msg_name = from.get();
  message.msg_namelen = sizeof from.storage;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(dns.get(), &message, 0) != 1) return false;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != IP_PKTINFO) return false;
  in_pktinfo info{};
  std::memcpy(&info, CMSG_DATA(header), sizeof info);
  info.ipi_spec_dst = info.ipi_addr;
  info.ipi_ifindex = 0;
  std::memcpy(CMSG_DATA(header), &info, sizeof info);
  message.msg_controllen = CMSG_SPACE(sizeof info);
  return ::sendmsg(dns.get(), &message, 0) == 1;
}

TEST(Door, EveryServerOfNamesIsOurs) {
  EXPECT_ALL_WELL(beside(orderWith({443}), [](DoorSockets& door) {
    for (const char* server : {"127.0.0.1", "127.0.0.53", "8.8.8.8", "198.18.0.77"}) {
      const auto made = attempt(SOCK_DGRAM, server, 53);
      if (::send(made.socket.get(), "?", 1, 0) != 1 || !answerDns(door.dns)) return 1;
      char answer = 0;
      if (::recv(made.socket.get(), &answer, 1, 0) != 1) return 2;  // connected: from `server`
      if (attempt(SOCK_STREAM, server, 53).error != 0) return 3;
      if (accepted(door.listeners[0]) != std::string(server) + " 53") return 4;
    }
    return 0;
  }));
}

TEST(Door, ServersInsideStayReachable) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    for (const char* address : {"127.0.0.1", "::1", "198.18.0.2"}) {
      const linux::Server server = linux::serve(address);
      if (!server.socket || attempt(SOCK_STREAM, address, server.port).error != 0) return 1;
      if (accepted(server.socket) != std::string(address) + " " + std::to_string(server.port))
        return 2;
    }
    pollfd listens{door.listeners[0].get(), POLLIN, 0};
    if (::poll(&listens, 1, 0) != 0) return 3;
    return linux::ask("127.0.0.1", 9) == ECONNREFUSED ? 0 : 4;
  }));
}

// The question about the program behind a connection.
TEST(Door, KnowsTheSocketOfAProgram) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    if (!door.diag) return linux::kNoNamespaces;
    const auto made = attempt(SOCK_STREAM, "198.18.0.77", 443);
    const std::string own = linux::ownEnd(made.socket.get());
    linux::TcpEnds ends{.own_port = static_cast<uint16_t>(std::stoi(own.substr(own.find(' ')))),
                        .peer_port = 443};
    ::inet_pton(AF_INET, "198.18.0.2", &ends.own);
    ::inet_pton(AF_INET, "198.18.0.77", &ends.peer);
    const auto inode = linux::inodeOf(door.diag.get(), ends);
    struct stat at{};
    if (!inode || ::fstat(made.socket.get(), &at) != 0) return 1;
    return *inode == at.st_ino ? 0 : 2;
  }));
}

// A program's own listener at a synthetic address hears nothing.
TEST(Door, AServerInsideIsNoWayAround) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    const linux::Server own = linux::serve("198.18.0.77");
    if (!own.socket || attempt(SOCK_STREAM, "198.18.0.77", own.port).error != 0) return 1;
    return accepted(door.listeners[0]) == "198.18.0.77 " + std::to_string(own.port) ? 0 : 2;
  }));
}

TEST(Door, AClosedListenerIsARefusal) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets& door) {
    door.listeners.clear();
    if (attempt(SOCK_STREAM, "198.18.0.77", 443).error != ECONNREFUSED) return 1;
    door.dns.reset();
    return linux::ask("8.8.8.8", 53) == ECONNREFUSED ? 0 : 2;
  }));
}

TEST(Door, ANamespaceHasOne) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets&) {
    const auto again = openDoor(orderWith());
    return !again && again.error().code == Code::kConflict ? 0 : 1;
  }));
}

// A sandbox's programs are in a user namespace below that of the network.
TEST(Door, ProgramsInsideCannotUndoIt) {
  EXPECT_ALL_WELL(beside(orderWith(), [](DoorSockets&) {
    if (!linux::unshareNamespaces(CLONE_NEWUSER)) return 1;
    const auto netfilter = linux::netlinkSocket(NETLINK_NETFILTER);
    linux::nft::Chain chain = doorRules(orderWith(), false);
    chain.table = "other";
    if (!netfilter || linux::nft::install(netfilter->get(), chain)) return 2;
    const auto route = linux::netlinkSocket(NETLINK_ROUTE);
    if (!route || linux::addLoopbackAddress(route->get(), in_addr{htonl(0x0A000001)})) return 3;
    if (linux::openLog(2)) return 4;
    if (::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 || errno != EPERM) return 5;
    const Fd low(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto at = linux::socketAddress("198.18.0.1", kListenerPort + 1);
    if (::bind(low.get(), at.get(), at.size) == 0 || errno != EACCES) return 6;
    const int on = 1;
    return ::setsockopt(low.get(), IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on) != 0 ? 0 : 7;
  }));
}

TEST(Door, WithoutTproxyEachPortHasAListener) {
  const int code = linux::inNetwork([] {
    auto door = openDoorByPorts(orderWith({80, 443}), "no reason");
    if (!door || door->transparent || door->log || door->listeners.size() != 4) return 1;
    if (door->weakened.empty() || !door->weakened[0].ends_with("no reason")) return 2;
    for (const auto& [port, index] : {std::pair(53, 0), {3128, 1}, {80, 2}, {443, 3}}) {
      if (attempt(SOCK_STREAM, "198.18.0.77", static_cast<uint16_t>(port)).error != 0) return 3;
      if (accepted(door->listeners[static_cast<size_t>(index)]) !=
          "198.18.0.77 " + std::to_string(port))
        return 4;
    }
    for (const char* address : {"198.18.0.77", "203.0.113.5", "2001:db8::5"}) {
      if (attempt(SOCK_STREAM, address, 444).error != ECONNREFUSED) return 5;
      if (linux::ask(address, 443) != ECONNREFUSED) return 6;
    }
    const auto made = attempt(SOCK_DGRAM, "8.8.8.8", 53);
    char answer = 0;
    if (::send(made.socket.get(), "?", 1, 0) != 1 || !answerDns(door->dns)) return 7;
    return ::recv(made.socket.get(), &answer, 1, 0) == 1 ? 0 : 8;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Door, WithoutTproxyTheListenersAreBounded) {
  const int code = linux::inNetwork([] {
    std::vector<uint16_t> ports;
    for (uint16_t port = 1000; port < 1040; ++port)
      ports.push_back(port);
    const auto door = openDoorByPorts(orderWith(ports), "");
    if (!door || door->listeners.size() != kMaxPortListeners) return 1;
    if (!door->weakened.back().contains("1039")) return 2;
    return attempt(SOCK_STREAM, "198.18.0.77", 1039).error == ECONNREFUSED ? 0 : 3;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

// The plan's ports come first; others would be of no use to its programs.
TEST(Door, WithoutTproxyThePortsOfTheFirstPlanHaveListeners) {
  const int code = linux::inNetwork([] {
    const std::vector<uint16_t> first = {5432, 443};
    const auto door = openDoorByPorts(*doorOrderForAll("198.18.0.0/15", first), "");
    if (!door || !door->weakened.back().ends_with("53, 3128, 5432, 443, 22, 80, 8080, 8443"))
      return 1;
    if (attempt(SOCK_STREAM, "198.18.0.77", 5432).error != 0) return 2;
    return accepted(door->listeners[2]) == "198.18.0.77 5432" ? 0 : 3;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Door, WithoutTproxyPortsWithoutAPlaceAreNamed) {
  const int code = linux::inNetwork([] {
    std::vector<uint16_t> first;
    for (uint16_t port = 1000; port < 1020; ++port)
      first.push_back(port);
    const auto door = openDoorByPorts(*doorOrderForAll("198.18.0.0/15", first), "");
    if (!door || door->listeners.size() != kMaxPortListeners) return 1;
    if (!door->weakened.back().ends_with("1014, 1015, 1016, 1017, 1018, 1019")) return 2;
    return attempt(SOCK_STREAM, "198.18.0.77", 1013).error == 0 ? 0 : 3;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Door, FirstPortsCloseNoOther) {
  EXPECT_ALL_WELL(
      beside(*doorOrderForAll("198.18.0.0/15", std::vector<uint16_t>{443}), [](DoorSockets& door) {
        if (attempt(SOCK_STREAM, "198.18.0.77", 5432).error != 0) return 1;
        return accepted(door.listeners[0]) == "198.18.0.77 5432" ? 0 : 2;
      }));
}

TEST(Door, WithoutTproxyUsualPortsStandForEveryPort) {
  const int code = linux::inNetwork([] {
    const auto door = openDoorByPorts(orderWith(), "");
    if (!door || !door->weakened.back().ends_with("53, 3128, 22, 80, 443, 8080, 8443")) return 1;
    return attempt(SOCK_STREAM, "198.18.0.77", 22).error == 0 ? 0 : 2;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

// The kernel allows this user namespace few network namespaces at a time, so none may be left.
TEST(Door, LeavesNoNamespace) {
  constexpr int kDoors = 300;
  const int code = linux::inNamespaces([] {
    constexpr char kMost[] = "/proc/sys/user/max_net_namespaces";
    const Fd most(::open(kMost, O_WRONLY | O_CLOEXEC));
    if (!most || ::write(most.get(), "20", 2) != 2) return linux::kNoNamespaces;
    int waits = 0;
    for (int doors = 0; doors < kDoors;) {
      const int made = linux::inChild([] {
        if (!linux::enterNewNetwork()) return 1;
        return openDoor(orderWith({80, 443})) ? 0 : 2;
      });
      if (made == 2) return 3;
      if (made == 0) {
        ++doors;
        continue;
      }
      // The kernel removes namespaces in the background.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (++waits > 6000) return 4;
    }
    return 0;
  });
  EXPECT_ALL_WELL(code);
}

TEST(DoorAnswers, AreReadBack) {
  DoorSockets door;
  door.transparent = true;
  for (int i = 0; i < 2; ++i)
    door.listeners.emplace_back(::dup(2));
  door.dns.reset(::dup(2));
  door.log.reset(::dup(2));
  door.diag.reset(::dup(2));
  door.weakened = {"one", "two"};
  const DoorAnswer answer = answerOf(door);
  const std::string_view bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
  std::vector<Fd> fds;
  for (int i = 0; i < 5; ++i)
    fds.emplace_back(::dup(2));
  const int log = fds[3].get();
  const int last = fds.back().get();
  const auto read = doorOf(bytes, std::move(fds));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->transparent);
  EXPECT_EQ(read->listeners.size(), 2U);
  EXPECT_EQ(read->log.get(), log);
  EXPECT_EQ(read->diag.get(), last);
  EXPECT_EQ(read->weakened, door.weakened);
}

TEST(DoorAnswers, WithOtherDescriptorsAreRefused) {
  DoorSockets door;
  door.listeners.emplace_back(::dup(2));
  door.dns.reset(::dup(2));
  const DoorAnswer answer = answerOf(door);
  const std::string_view bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
  for (const size_t count : {1, 3}) {
    std::vector<Fd> fds;
    for (size_t i = 0; i < count; ++i)
      fds.emplace_back(::dup(2));
    EXPECT_FALSE(doorOf(bytes, std::move(fds))) << count;
  }
  EXPECT_EQ(doorOf("no such thing", {}).error().message, "no such thing");
  EXPECT_FALSE(readDoorAnswer(bytes.substr(1)));
  EXPECT_FALSE(readDoorAnswer(std::string(sizeof answer, '\xFF')));
}

}  // namespace
}  // namespace cloister::runtime
