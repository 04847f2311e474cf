// SPDX-License-Identifier: Apache-2.0
#include "linux/tap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "linux/netlink.h"

namespace cloister::linux {
namespace {

constexpr unsigned char kNoAddressOfItsOwn = 1;  // IN6_ADDR_GEN_MODE_NONE (linux/if_link.h)

// A new network namespace has these settings of IPv4 from the host's first namespace, whatever the
// operator has set there.
constexpr std::pair<uint16_t, uint32_t> kSettings[] = {
    {IPV4_DEVCONF_FORWARDING, 0},          {IPV4_DEVCONF_PROXY_ARP, 0},
    {IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},    {IPV4_DEVCONF_SEND_REDIRECTS, 0},
    {IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0}, {IPV4_DEVCONF_RP_FILTER, 1},
    {IPV4_DEVCONF_LOG_MARTIANS, 0},        {IPV4_DEVCONF_ACCEPT_LOCAL, 0},
    {IPV4_DEVCONF_ROUTE_LOCALNET, 0}};

std::string headerOf(uint32_t index, unsigned flags, unsigned change) {
  ifinfomsg header{};
  header.ifi_family = AF_UNSPEC;
  header.ifi_index = static_cast<int>(index);
  header.ifi_flags = flags;
  header.ifi_change = change;
  return std::string(bytesOf(header));
}

Result<> setUpIpv4(int netlink, uint32_t index, const TapLink& link) {
  NetlinkMessages messages;
  messages.begin(RTM_NEWLINK, NLM_F_ACK, headerOf(index, 0, 0));
  messages.add(IFLA_ADDRESS,
               {reinterpret_cast<const char*>(link.ethernet.data()), link.ethernet.size()});
  messages.open(IFLA_AF_SPEC);
  messages.open(AF_INET);
  messages.open(IFLA_INET_CONF);
  for (const auto& [setting, value] : kSettings)
    messages.add(setting, bytesOf(value));
  messages.close();
  messages.close();
  messages.close();
  return transact(netlink, messages, "setting up a tap interface");
}

// Without IPv6 in the kernel this fails, and nothing is to be done.
void giveNoIpv6Address(int netlink, uint32_t index) {
  NetlinkMessages messages;
  messages.begin(RTM_NEWLINK, NLM_F_ACK, headerOf(index, 0, 0));
  messages.open(IFLA_AF_SPEC);
  messages.open(AF_INET6);
  messages.add(IFLA_INET6_ADDR_GEN_MODE, bytesOf(kNoAddressOfItsOwn));
  messages.close();
  messages.close();
  std::ignore = transact(netlink, messages, "turning off IPv6 of a tap interface");
}

Result<> bringUp(int netlink, uint32_t index) {
  NetlinkMessages messages;
  messages.begin(RTM_NEWLINK, NLM_F_ACK,
                 headerOf(index, IFF_UP | IFF_NOARP, IFF_UP | IFF_NOARP | IFF_MULTICAST));
  return transact(netlink, messages, "bringing up a tap interface");
}

// More specific than the route by which every other address is the host's, so that the guest's
// packets come from where its answers go (rp_filter).
Result<> routeToGuest(int netlink, uint32_t index, const TapLink& link) {
  NetlinkMessages messages;
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_dst_len = 32;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_LINK;
  header.rtm_type = RTN_UNICAST;
  messages.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, bytesOf(header));
  messages.add(RTA_DST, bytesOf(link.guest));
  messages.add(RTA_OIF, bytesOf(index));
  messages.add(RTA_PREFSRC, bytesOf(link.host));
  return transact(netlink, messages, "routing to a machine");
}

}  // namespace

Result<Fd> makeTap(int directory, std::string_view name) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return fail(Code::kInvalid, "a tap's name: too long");
  Fd tap(::openat(directory, kTunName, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap) return failErrno("opening /dev/net/tun");
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) return failErrno("making a tap interface");
  return tap;
}

Result<> leaveTap(const Fd& tap, uint32_t user) {
  if (::ioctl(tap.get(), TUNSETOWNER, static_cast<unsigned long>(user)) != 0 ||
      ::ioctl(tap.get(), TUNSETPERSIST, 1UL) != 0) {
    return failErrno("handing over a tap interface");
  }
  return {};
}

Result<> connectTap(int netlink, const TapLink& link) {
  const uint32_t index = ::if_nametoindex(link.name.c_str());
  if (index == 0) return fail(Code::kNotFound, "there is no interface " + link.name);
  TRY(setUpIpv4(netlink, index, link));
  giveNoIpv6Address(netlink, index);
  TRY(bringUp(netlink, index));
  return routeToGuest(netlink, index, link);
}

}  // namespace cloister::linux
