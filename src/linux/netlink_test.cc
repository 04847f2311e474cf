// SPDX-License-Identifier: Apache-2.0
#include "linux/netlink.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "linux/in_network.h"

namespace cloister::linux {
namespace {

in_addr addressOf(const char* text) {
  in_addr address{};
  ::inet_pton(AF_INET, text, &address);
  return address;
}

bool isLocal(const char* text) {
  LocalAddresses addresses;
  const auto local = addresses.contains(*base::Address::parse(text));
  return local && *local;
}

TEST(Netlink, EncodesNestedAttributes) {
  NetlinkMessages messages;
  messages.begin(0x0102, NLM_F_CREATE, "\x0A");
  messages.open(3);
  messages.addBig16(4, 0x1234);
  messages.addText(5, "lo");
  messages.close();
  messages.addBig32(6, 0x01020304);
  messages.begin(7, 0, {});
  messages.acknowledge();
  EXPECT_EQ(base::toHex(messages.bytes()),
            "30000000"
            "0201"
            "0104"
            "01000000"
            "00000000"
            "0a000000"
            "1400"
            "0380"
            "0600"
            "0400"
            "12340000"
            "0700"
            "0500"
            "6c6f0000"
            "0800"
            "0600"
            "01020304"
            "10000000"
            "0700"
            "0500"
            "02000000"
            "00000000");
}

TEST(Netlink, ReadsBackWhatItWrote) {
  NetlinkMessages messages;
  messages.begin(9, 0, {});
  messages.addText(5, "lo");
  messages.begin(10, 0, {});
  std::string_view bytes = messages.bytes();
  NetlinkAnswer message;
  ASSERT_TRUE(nextMessage(bytes, message));
  EXPECT_EQ(message.type, 9);
  NetlinkAttribute attribute;
  ASSERT_TRUE(nextAttribute(message.payload, attribute));
  EXPECT_EQ(attribute.type, 5);
  EXPECT_EQ(attribute.value, std::string_view("lo", 3));
  EXPECT_FALSE(nextAttribute(message.payload, attribute));
  ASSERT_TRUE(nextMessage(bytes, message));
  EXPECT_EQ(message.type, 10);
  EXPECT_FALSE(nextMessage(bytes, message));
}

TEST(Netlink, StopsAtLengthsBeyondTheBytes) {
  NetlinkMessages messages;
  messages.begin(9, 0, {});
  messages.addText(5, "value");
  const std::string whole = messages.bytes();
  NetlinkAnswer message;
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string_view cut = std::string_view(whole).substr(0, size);
    EXPECT_FALSE(nextMessage(cut, message)) << size;
  }
  NetlinkAttribute attribute;
  for (const std::string_view odd : {"", "\x03", "\x03\x00\x01\x00", "\xFF\xFF\x01\x00 "}) {
    std::string_view bytes = odd;
    EXPECT_FALSE(nextAttribute(bytes, attribute)) << base::toHex(odd);
  }
}

TEST(Netlink, EveryAddressIsDeliveredLocally) {
  const int code = inNetwork([] {
    const auto route = netlinkSocket(NETLINK_ROUTE);
    if (!route || isLocal("203.0.113.5") || isLocal("2001:db8::5")) return 1;
    if (!addLoopbackAddress(route->get(), addressOf("198.18.0.2"))) return 2;
    if (!isLocal("198.18.0.2") || isLocal("198.18.0.3")) return 3;
    const auto again = addLoopbackAddress(route->get(), addressOf("198.18.0.2"));
    if (again || again.error().code != Code::kConflict) return 4;
    if (!routeAllToLoopback(route->get(), addressOf("198.18.0.2"))) return 5;
    if (!routeAllToLoopback6(route->get())) return 6;
    if (!isLocal("203.0.113.5") || !isLocal("2001:db8::5")) return 7;
    const Server server = serve("0.0.0.0");
    const Attempt made = attempt(SOCK_STREAM, "203.0.113.5", server.port);
    if (made.error != 0) return 8;
    if (!ownEnd(made.socket.get()).starts_with("198.18.0.2 ")) return 9;
    const Server other = serve("::");
    return attempt(SOCK_STREAM, "2001:db8::5", other.port).error == 0 ? 0 : 10;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Netlink, AnAddressOfThisHostIsLocal) {
  EXPECT_TRUE(isLocal("127.0.0.1"));
  EXPECT_TRUE(isLocal("::1"));
}

TEST(Netlink, EachQuestionIsAnsweredByTheRoutesOfNow) {
  const int code = inNetwork([] {
    LocalAddresses addresses;
    const base::Address own = *base::Address::parse("198.18.0.2");
    const auto before = addresses.contains(own);
    const auto route = netlinkSocket(NETLINK_ROUTE);
    if (!before || *before || !route) return 1;
    if (!addLoopbackAddress(route->get(), addressOf("198.18.0.2"))) return 2;
    const auto after = addresses.contains(own);
    if (!after || !*after) return 3;
    const auto other = addresses.contains(*base::Address::parse("198.18.0.3"));
    return other && !*other ? 0 : 4;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Netlink, WithoutTheCapabilityNothingChanges) {
  const int code = inNetwork([] {
    if (!unshareNamespaces(CLONE_NEWUSER)) return 1;
    const auto route = netlinkSocket(NETLINK_ROUTE);
    if (!route || addLoopbackAddress(route->get(), addressOf("198.18.0.2"))) return 2;
    return routeAllToLoopback(route->get(), addressOf("127.0.0.1")) ? 3 : 0;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace cloister::linux
