// SPDX-License-Identifier: Apache-2.0
#include "confine/door_link.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netfilter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <arpa/inet.h>

#include "confine/door_rules.h"
#include "linux/netlink.h"
#include "linux/tap.h"

namespace cloister::runtime {
namespace {

namespace nft = linux::nft;

constexpr uint32_t kGatewayOffset = 1;  // listenerAddress()
constexpr uint32_t kMachineOffset = 3;  // behind ownAddress()
static_assert(kMachineOffset < kDoorAddresses);

// Offsets of RFC 791.
constexpr uint32_t kSourceAddress = 12;
constexpr uint32_t kDestinationAddress = 16;

// `rest` judges packets that come over the link; every other packet passes.
nft::Rule dropped(std::string_view why, std::vector<nft::Expression> rest) {
  std::vector<nft::Expression> all = {nft::loadInterface(),
                                      nft::differ(linux::bytesOf(linux::kLoopback))};
  for (nft::Expression& each : rest)
    all.push_back(std::move(each));
  all.push_back(nft::drop());
  return {why, std::move(all)};
}

// Settings of this process's network namespace, in order. A kernel without one of the files does
// without; the rules hold all the same.
struct Setting {
  const char* file;  // in /proc/sys/net
  std::string_view value;
  std::string_view why;
};
constexpr Setting kSettings[] = {
    {"ipv4/ipfrag_low_thresh", "0", "the next may not be smaller"},
    {"ipv4/ipfrag_high_thresh", "0", "fragments take kernel memory, and no program here needs any"},
    {"ipv4/icmp_ratemask", "0",
     "one answer a second to refused datagrams would let clients of QUIC wait"},
    {"ipv6/conf/tap0/disable_ipv6", "1", "the link has no IPv6"}};

void apply(const Setting& setting) {
  const std::string path = std::string("/proc/sys/net/") + setting.file;
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file) std::ignore = ::write(file.get(), setting.value.data(), setting.value.size());
}

}  // namespace

uint32_t linkAddress(const DoorOrder& order) {
  return order.pool + kMachineOffset;
}

uint32_t linkGateway(uint32_t address) {
  return address - kMachineOffset + kGatewayOffset;
}

std::vector<nft::Rule> linkRules(const DoorOrder& order) {
  constexpr uint8_t kIpv4 = NFPROTO_IPV4;
  constexpr uint8_t kToThisHost = PACKET_HOST;
  const in_addr guest{.s_addr = htonl(linkAddress(order))};
  return {
      dropped("the link has no IPv6", {nft::loadFamily(), nft::differ(linux::bytesOf(kIpv4))}),
      dropped("frames to everybody",
              {nft::loadPacketType(), nft::differ(linux::bytesOf(kToThisHost))}),
      dropped("a source that is not the machine's",
              {nft::loadNetwork(kSourceAddress, sizeof guest), nft::differ(linux::bytesOf(guest))}),
      dropped("the loopback addresses are each kernel's own",
              {nft::loadNetwork(kDestinationAddress, 1), nft::equal("\x7F")}),
      dropped("multicast, broadcast and reserved addresses",
              {nft::loadNetwork(kDestinationAddress, 1), nft::mask("\xE0"), nft::equal("\xE0")})};
}

Result<> connectLink(const DoorOrder& order) {
  for (const Setting& each : kSettings)
    apply(each);
  const Fd netlink = TRY(linux::netlinkSocket(NETLINK_ROUTE));
  return linux::connectTap(netlink.get(), {.name = kLinkName,
                                           .ethernet = kLinkEthernet,
                                           .guest = {.s_addr = htonl(linkAddress(order))},
                                           .host = ownAddress(order)});
}

}  // namespace cloister::runtime
