// SPDX-License-Identifier: Apache-2.0
#include "confine/door_rules.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>

#include "confine/door_link.h"
#include "linux/netlink.h"
#include "linux/nflog.h"

namespace cloister::runtime {
namespace {

namespace nft = linux::nft;
using linux::bytesOf;
using Expressions = std::vector<nft::Expression>;

// The priority of mangling, where tproxy belongs (NF_IP_PRI_MANGLE).
constexpr int32_t kPriority = -150;

// Offsets and flags of RFC 791, RFC 8200 and RFC 9293.
constexpr uint32_t kDestination4 = 16;
constexpr uint32_t kDestination6 = 24;
constexpr uint32_t kDestinationPort = 2;
constexpr uint32_t kTcpFlags = 13;
constexpr std::string_view kOpening("\x17", 1);  // FIN, SYN, RST, ACK
constexpr std::string_view kSyn("\x02", 1);

in_addr addressOf(uint32_t host_order) {
  return {.s_addr = htonl(host_order)};
}

Expressions operator+(Expressions left, const Expressions& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Expressions ofFamily(uint8_t family) {
  return {nft::loadFamily(), nft::equal(bytesOf(family))};
}

Expressions ofProtocol(uint8_t protocol) {
  return {nft::loadProtocol(), nft::equal(bytesOf(protocol))};
}

Expressions toPort(uint16_t port) {
  const uint16_t big = htons(port);
  return {nft::loadTransport(kDestinationPort, sizeof big), nft::equal(bytesOf(big))};
}

Expressions toAddress(in_addr address) {
  return ofFamily(NFPROTO_IPV4) +
         Expressions{nft::loadNetwork(kDestination4, sizeof address), nft::equal(bytesOf(address))};
}

Expressions toLoopback4() {
  return ofFamily(NFPROTO_IPV4) +
         Expressions{nft::loadNetwork(kDestination4, 1), nft::equal("\x7F")};
}

Expressions toLoopback6() {
  return ofFamily(NFPROTO_IPV6) +
         Expressions{nft::loadNetwork(kDestination6, sizeof in6addr_loopback),
                     nft::equal(bytesOf(in6addr_loopback))};
}

Expressions overLoopback() {
  return {nft::loadInterface(), nft::equal(bytesOf(linux::kLoopback))};
}

Expressions toPool(const DoorOrder& order) {
  const in_addr network = addressOf(order.pool);
  const in_addr mask = addressOf(~(UINT32_MAX >> order.pool_bits));
  return ofFamily(NFPROTO_IPV4) + Expressions{nft::loadNetwork(kDestination4, sizeof network),
                                              nft::mask(bytesOf(mask)),
                                              nft::equal(bytesOf(network))};
}

// Acknowledged and later segments of a connection, which the sockets judge themselves.
nft::Rule notOpening() {
  return {
      "no attempt to connect",
      ofProtocol(IPPROTO_TCP) + Expressions{nft::loadTransport(kTcpFlags, 1), nft::mask(kOpening),
                                            nft::differ(kSyn), nft::accept()}};
}

// 127.0.0.1 as well: a program without a resolv.conf asks there.
void addDns(std::vector<nft::Rule>& rules, const Expressions& redirect) {
  rules.push_back({"DNS over TCP, whatever server is asked",
                   ofFamily(NFPROTO_IPV4) + ofProtocol(IPPROTO_TCP) + toPort(kDnsPort) + redirect});
  rules.push_back({"DNS over UDP, likewise", ofFamily(NFPROTO_IPV4) + ofProtocol(IPPROTO_UDP) +
                                                 toPort(kDnsPort) + Expressions{nft::accept()}});
}

// The host's end of a link has no servers for the machine.
void addOwn(std::vector<nft::Rule>& rules, const DoorOrder& order) {
  constexpr std::string_view kWhy = "servers of the sandbox, for the sandbox";
  Expressions own = toAddress(ownAddress(order));
  if (order.linked) own = overLoopback() + own;
  for (Expressions& to : std::vector{toLoopback4(), toLoopback6(), std::move(own)})
    rules.push_back({kWhy, std::move(to) + Expressions{nft::accept()}});
}

void addSynthetic(std::vector<nft::Rule>& rules, const DoorOrder& order,
                  const Expressions& redirect) {
  constexpr std::string_view kWhy = "the address of a name";
  const Expressions to = toPool(order) + ofProtocol(IPPROTO_TCP);
  if (order.port_count == 0) {
    rules.push_back({kWhy, to + redirect});
    return;
  }
  for (const uint16_t port : std::span(order.ports).first(order.port_count))
    rules.push_back({kWhy, to + toPort(port) + redirect});
  rules.push_back({"the explicit proxy", to + toPort(kProxyPort) + redirect});
}

void addRefusals(std::vector<nft::Rule>& rules, bool logs) {
  Expressions log;
  if (logs) log.push_back(nft::log(kDoorLogGroup, linux::kLoggedBytes));
  rules.push_back({"clients of QUIC turn to TCP at once",
                   ofProtocol(IPPROTO_UDP) + log +
                       Expressions{nft::rejectWithIcmp(NFT_REJECT_ICMPX_PORT_UNREACH)}});
  rules.push_back({"literal addresses, and other ports",
                   ofProtocol(IPPROTO_TCP) + log + Expressions{nft::rejectWithReset()}});
  rules.push_back({"every other protocol",
                   log + Expressions{nft::rejectWithIcmp(NFT_REJECT_ICMPX_ADMIN_PROHIBITED)}});
}

nft::Chain emptyChain() {
  return {.table = "cloister", .name = "door", .priority = kPriority, .rules = {}};
}

}  // namespace

in_addr listenerAddress(const DoorOrder& order) {
  return addressOf(order.pool + 1);
}

in_addr ownAddress(const DoorOrder& order) {
  return addressOf(order.pool + 2);
}

nft::Chain doorRules(const DoorOrder& order, bool logs) {
  const Expressions redirect = nft::redirect4(listenerAddress(order), kListenerPort);
  nft::Chain chain = emptyChain();
  if (order.linked) chain.rules = linkRules(order);
  chain.rules.push_back(notOpening());
  addDns(chain.rules, redirect);
  addOwn(chain.rules, order);
  addSynthetic(chain.rules, order, redirect);
  addRefusals(chain.rules, logs);
  return chain;
}

nft::Chain standingRules() {
  nft::Chain chain = emptyChain();
  chain.rules.push_back({"its expression has hooks of its own",
                         ofFamily(NFPROTO_IPV4) + ofProtocol(IPPROTO_TCP) +
                             nft::redirect4(addressOf(INADDR_LOOPBACK), kListenerPort)});
  return chain;
}

}  // namespace cloister::runtime
