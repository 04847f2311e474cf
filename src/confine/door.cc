// SPDX-License-Identifier: Apache-2.0
#include "confine/door.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <arpa/inet.h>

#include "confine/door_link.h"
#include "confine/door_rules.h"
#include "linux/netlink.h"
#include "linux/nflog.h"

namespace cloister::runtime {
namespace {

constexpr int kBacklog = 256;
constexpr int kDnsQueueBytes = 128 << 10;
constexpr char kNeedsTproxy[] = "a network link needs tproxy";
// Listened to without tproxy where the plan has every port.
constexpr uint16_t kUsualPorts[] = {22, 80, 443, 8080, 8443};

Result<> setOption(const Fd& socket, int level, int option, int value) {
  if (::setsockopt(socket.get(), level, option, &value, sizeof value) != 0) {
    return failErrno("setting up a door's socket");
  }
  return {};
}

Result<Fd> boundSocket(int type, in_addr address, uint16_t port) {
  Fd made(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return failErrno("making a door's socket");
  // To be bound to, and to answer from, an address of no interface.
  TRY(setOption(made, IPPROTO_IP, IP_TRANSPARENT, 1));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr = address;
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return failErrno("binding a door's socket to port " + std::to_string(port));
  }
  return made;
}

Result<Fd> listener(in_addr address, uint16_t port) {
  Fd made = TRY(boundSocket(SOCK_STREAM, address, port));
  if (::listen(made.get(), kBacklog) != 0) return failErrno("listening at a door's socket");
  return made;
}

Result<Fd> dnsSocket() {
  Fd made = TRY(boundSocket(SOCK_DGRAM, {.s_addr = INADDR_ANY}, kDnsPort));
  TRY(setOption(made, IPPROTO_IP, IP_PKTINFO, 1));
  TRY(setOption(made, SOL_SOCKET, SO_RCVBUF, kDnsQueueBytes));
  return made;
}

// The steps around the listeners. The sandbox's own address comes first: a namespace that has the
// address has a door. The routes come last, since from then on programs reach the sockets.
class Frame {
 public:
  explicit Frame(const DoorOrder& order) : order_(order) {}

  Result<DoorSockets> begin() {
    netlink_ = TRY(linux::netlinkSocket(NETLINK_ROUTE));
    TRY(linux::addLoopbackAddress(netlink_.get(), ownAddress(order_)));
    DoorSockets door;
    door.dns = TRY(dnsSocket());
    return door;
  }

  Result<> end(DoorSockets& door) {
    TRY(linux::routeAllToLoopback(netlink_.get(), ownAddress(order_)));
    if (auto routed = linux::routeAllToLoopback6(netlink_.get()); !routed) {
      door.weakened.push_back(
          "no route of IPv6: attempts to connect over IPv6 are refused without a record: " +
          routed.error().message);
    }
    return {};
  }

 private:
  const DoorOrder& order_;
  Fd netlink_;
};

Result<> installRules(const DoorOrder& order, bool logs) {
  const Fd netlink = TRY(linux::netlinkSocket(NETLINK_NETFILTER));
  return linux::nft::install(netlink.get(), doorRules(order, logs));
}

// With the log where the kernel has one.
Result<> listenTransparently(const DoorOrder& order, DoorSockets& door) {
  Fd hears = TRY(listener(listenerAddress(order), kListenerPort));
  auto log = linux::openLog(kDoorLogGroup);
  const auto with_log = log ? installRules(order, true) : std::unexpected(log.error());
  if (!with_log) {
    TRY(installRules(order, false));
    door.weakened.push_back("no nfnetlink_log: refused attempts to connect are not recorded: " +
                            with_log.error().message);
  } else {
    door.log = *std::move(log);
  }
  door.transparent = true;
  door.listeners.push_back(std::move(hears));
  return {};
}

// The ports of the plan, and the door's own, distinct.
std::vector<uint16_t> portsFor(const DoorOrder& order) {
  std::vector<uint16_t> ports = {kDnsPort, kProxyPort};
  const std::span<const uint16_t> wanted = order.port_count == 0
                                               ? std::span<const uint16_t>(kUsualPorts)
                                               : std::span(order.ports).first(order.port_count);
  for (const uint16_t port : wanted) {
    if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

std::string listOf(std::span<const uint16_t> ports) {
  std::string text;
  for (const uint16_t port : ports)
    text += (text.empty() ? "" : ", ") + std::to_string(port);
  return text;
}

Result<> listenByPorts(const DoorOrder& order, DoorSockets& door) {
  std::vector<uint16_t> ports = portsFor(order);
  if (order.port_count == 0) {
    door.weakened.push_back("no tproxy: of all ports, only these reach the network: " +
                            listOf(ports));
  }
  if (ports.size() > kMaxPortListeners) {
    door.weakened.push_back("no tproxy: these ports of the policy do not reach the network: " +
                            listOf(std::span(ports).subspan(kMaxPortListeners)));
    ports.resize(kMaxPortListeners);
  }
  for (const uint16_t port : ports)
    door.listeners.push_back(TRY(listener({.s_addr = INADDR_ANY}, port)));
  return {};
}

Result<DoorSockets> finishByPorts(const DoorOrder& order, Frame& frame, DoorSockets door,
                                  const std::string& why) {
  door.weakened.push_back(
      "no tproxy: attempts to connect to other addresses and ports are refused without a record, "
      "and programs cannot listen on the ports of the policy: " +
      why);
  TRY(listenByPorts(order, door));
  TRY(frame.end(door));
  return door;
}

}  // namespace

Result<DoorSockets> openDoor(const DoorOrder& order) {
  Frame frame(order);
  DoorSockets door = TRY(frame.begin());
  if (auto listens = listenTransparently(order, door); !listens) {
    // Without rules nothing bounds what the frames of a machine reach.
    if (order.linked) return std::unexpected(std::move(listens).error().within(kNeedsTproxy));
    return finishByPorts(order, frame, std::move(door), listens.error().message);
  }
  TRY(frame.end(door));
  if (!order.linked) return door;
  TRY(connectLink(order));
  door.weakened.emplace_back(kWeakerLink);
  return door;
}

Result<DoorSockets> openDoorByPorts(const DoorOrder& order, const std::string& why) {
  Frame frame(order);
  DoorSockets door = TRY(frame.begin());
  return finishByPorts(order, frame, std::move(door), why);
}

}  // namespace cloister::runtime
