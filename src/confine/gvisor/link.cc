// SPDX-License-Identifier: Apache-2.0
#include "confine/gvisor/link.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <arpa/inet.h>

#include "confine/door_link.h"
#include "confine/door_order.h"
#include "confine/gvisor/bundle.h"
#include "confine/mount_plan.h"
#include "linux/netlink.h"
#include "linux/network.h"
#include "linux/veth.h"

namespace cloister::runtime::gvisor {
namespace {

// runsc gives programs the interface under this name.
constexpr char kInside[] = "eth0";
constexpr char kNameServer[] = "tmp/resolv.conf";

// An interface without IPv6 has no address that runsc would take over.
Result<> turnOffIpv6(const std::string& interface) {
  const std::string path = "/proc/sys/net/ipv6/conf/" + interface + "/disable_ipv6";
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return {};  // a kernel without IPv6
  if (!file || ::write(file.get(), "1", 1) != 1) return failErrno("turning off IPv6: " + path);
  return {};
}

Result<> makeInterfaces(uint32_t address) {
  TRY(linux::raiseLoopback());
  const Fd netlink = TRY(linux::netlinkSocket(NETLINK_ROUTE));
  TRY(linux::makeVeth(netlink.get(),
                      {.one = kInside, .other = kLinkName, .ethernet = kLinkEthernet}));
  for (const char* end : {kInside, kLinkName}) {
    TRY(turnOffIpv6(end));
    TRY(linux::bringUpVeth(netlink.get(), end));
  }
  return linux::routeByVeth(netlink.get(), {.name = kInside,
                                            .ethernet = kLinkEthernet,
                                            .address = {.s_addr = htonl(address)},
                                            .gateway = {.s_addr = htonl(linkGateway(address))}});
}

// gVisor's loopback addresses are its own: no door answers at the address that the root names.
Result<> showNameServer(uint32_t address) {
  char text[INET_ADDRSTRLEN] = {};
  const in_addr server{.s_addr = htonl(linkGateway(address))};
  ::inet_ntop(AF_INET, &server, text, sizeof text);
  TRY(applyStep({.op = MountStep::Op::kFile,
                 .target = kNameServer,
                 .mode = 0444,
                 .content = "nameserver " + std::string(text) + "\n" + std::string(kDnsOptions)}));
  return applyStep({.op = MountStep::Op::kPlace,
                    .target = std::string(kRoot.substr(1)) + "/etc/resolv.conf",
                    .source = kNameServer});
}

// runsc takes a network namespace with the file rmem_default for the host's first, and refuses it.
// Newer kernels have the file in every namespace.
Result<> hideSettings() {
  return applyStep({.op = MountStep::Op::kNew,
                    .target = "proc/sys/net/core",
                    .source = "tmpfs",
                    .options = {{"size", "4k"}, {"nr_inodes", "2"}, {"mode", "555"}},
                    .attributes = linux::kReadOnly | linux::kNoSuid | linux::kNoDev});
}

}  // namespace

Result<> makeLink(uint32_t address) {
  TRY(makeInterfaces(address));
  TRY(showNameServer(address));
  return hideSettings();
}

}  // namespace cloister::runtime::gvisor
