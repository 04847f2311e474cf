// SPDX-License-Identifier: Apache-2.0
#include "linux/veth.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>

#include <string_view>

#include "linux/netlink.h"

namespace cloister::linux {
namespace {

std::string_view bytesOfEthernet(const std::array<uint8_t, 6>& address) {
  return {reinterpret_cast<const char*>(address.data()), address.size()};
}

Result<uint32_t> indexOf(const std::string& name) {
  const uint32_t index = ::if_nametoindex(name.c_str());
  if (index == 0) return failErrno("looking for the interface " + name);
  return index;
}

// The router's Ethernet address is fixed, so that whoever takes the interface over need not ask.
Result<> addNeighbour(int netlink, uint32_t index, const VethRoute& route) {
  NetlinkMessages messages;
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_ifindex = static_cast<int>(index);
  header.ndm_state = NUD_PERMANENT;
  messages.begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, bytesOf(header));
  messages.add(NDA_DST, bytesOf(route.gateway));
  messages.add(NDA_LLADDR, bytesOfEthernet(route.ethernet));
  return transact(netlink, messages, "adding a router's Ethernet address");
}

Result<> addDefaultRoute(int netlink, uint32_t index, const VethRoute& route) {
  NetlinkMessages messages;
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  header.rtm_flags = RTNH_F_ONLINK;  // the end has no route to the gateway itself
  messages.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, bytesOf(header));
  messages.add(RTA_GATEWAY, bytesOf(route.gateway));
  messages.add(RTA_OIF, bytesOf(index));
  messages.add(RTA_PREFSRC, bytesOf(route.address));
  return transact(netlink, messages, "adding a default route");
}

}  // namespace

Result<> makeVeth(int netlink, const VethPair& pair) {
  NetlinkMessages messages;
  const ifinfomsg any{};
  messages.begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, bytesOf(any));
  messages.addText(IFLA_IFNAME, pair.one);
  messages.add(IFLA_ADDRESS, bytesOfEthernet(pair.ethernet));
  messages.open(IFLA_LINKINFO);
  messages.addText(IFLA_INFO_KIND, "veth");
  messages.open(IFLA_INFO_DATA);
  messages.open(VETH_INFO_PEER, bytesOf(any));
  messages.addText(IFLA_IFNAME, pair.other);
  messages.add(IFLA_ADDRESS, bytesOfEthernet(pair.ethernet));
  messages.close();
  messages.close();
  messages.close();
  return transact(netlink, messages, "making a pair of interfaces (veth)");
}

Result<> bringUpVeth(int netlink, const std::string& name) {
  NetlinkMessages messages;
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(TRY(indexOf(name)));
  header.ifi_flags = IFF_UP | IFF_NOARP;
  header.ifi_change = IFF_UP | IFF_NOARP;
  messages.begin(RTM_NEWLINK, NLM_F_ACK, bytesOf(header));
  return transact(netlink, messages, "bringing up " + name);
}

Result<> routeByVeth(int netlink, const VethRoute& route) {
  const uint32_t index = TRY(indexOf(route.name));
  TRY(addAddress(netlink, index, route.address));
  TRY(addNeighbour(netlink, index, route));
  return addDefaultRoute(netlink, index, route);
}

}  // namespace cloister::linux
