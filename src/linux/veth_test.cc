// SPDX-License-Identifier: Apache-2.0
// Pairs of interfaces in network namespaces of the test's own.
#include "linux/veth.h"

#include <linux/netlink.h>
#include <net/if.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/in_network.h"
#include "linux/netlink.h"

namespace cloister::linux {
namespace {

constexpr std::array<uint8_t, 6> kEthernet = {2, 0, 0, 0, 0, 1};

// The exit code of `body` with a pair "one" and "other".
int withPair(const std::function<int(int netlink)>& body) {
  return inNetwork([&] {
    const auto netlink = netlinkSocket(NETLINK_ROUTE);
    if (!netlink) return 100;
    const auto made =
        makeVeth(netlink->get(), {.one = "one", .other = "other", .ethernet = kEthernet});
    if (!made && made.error().message.contains("not supported")) return kNoNamespaces;
    return made ? body(netlink->get()) : 101;
  });
}

#define EXPECT_LINKED(code)                                                           \
  const int exit_code = (code);                                                       \
  if (exit_code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user"; \
  EXPECT_EQ(exit_code, 0)

TEST(Veth, HasTwoEndsWithTheAddress) {
  EXPECT_LINKED(withPair([](int netlink) {
    if (::if_nametoindex("one") == 0 || ::if_nametoindex("other") == 0) return 1;
    for (const char* name : {"one", "other"}) {
      if (!bringUpVeth(netlink, name)) return 2;
    }
    const auto again = makeVeth(netlink, {.one = "one", .other = "third", .ethernet = kEthernet});
    if (again || again.error().code != Code::kConflict) return 3;
    return bringUpVeth(netlink, "none") ? 4 : 0;
  }));
}

// Whoever takes the end over reads exactly this.
TEST(Veth, RoutesEverythingOverAnEnd) {
  EXPECT_LINKED(withPair([](int netlink) {
    const VethRoute route{.name = "one",
                          .ethernet = kEthernet,
                          .address = {.s_addr = htonl(0xC6120003)},
                          .gateway = {.s_addr = htonl(0xC6120001)}};
    if (!bringUpVeth(netlink, "one") || !bringUpVeth(netlink, "other")) return 1;
    if (!routeByVeth(netlink, route)) return 2;
    const std::string routes = base::readFile("/proc/thread-self/net/route").value_or("");
    if (!routes.contains("one\t00000000\t010012C6\t0003")) return 3;
    const std::string neighbours = base::readFile("/proc/thread-self/net/arp").value_or("");
    return neighbours.contains("198.18.0.1") && neighbours.contains("02:00:00:00:00:01") ? 0 : 4;
  }));
}

}  // namespace
}  // namespace cloister::linux
