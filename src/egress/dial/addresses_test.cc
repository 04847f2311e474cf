// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/addresses.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace cloister::egress {
namespace {

using base::Address;
using base::Network;

Address addressOf(std::string_view text) {
  const auto address = Address::parse(text);
  if (!address) ADD_FAILURE() << text;
  return address.value_or(Address());
}

bool isRefused(std::string_view text, const std::vector<Network>& internal = {},
               const AddressRules& rules = {}) {
  return refusedAddress(addressOf(text), internal, rules).has_value();
}

// Each address of a list.
void expectRefused(std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    EXPECT_TRUE(isRefused(list.substr(0, end))) << list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

TEST(Addresses, RefusesSpecialRangesOfIpv4) {
  for (const std::string_view text :
       {"0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 100.100.100.200",
        "127.0.0.1 127.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255",
        "172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.255 192.0.0.192 192.88.99.1 192.168.0.0",
        "192.168.255.255 198.18.0.0 198.19.255.255 224.0.0.0 239.255.255.255 240.0.0.0",
        "255.255.255.255 168.63.129.16"})
    expectRefused(text);
}

TEST(Addresses, RefusesSpecialRangesOfIpv6) {
  for (const std::string_view text :
       {":: ::1 ::2 ::10.0.0.1 ::8.8.8.8 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254",
        "64:ff9b:1::1 64:ff9b:1:ffff::8.8.8.8 100::1 2001::1 2001:0:4136:e378::1 2001:2::1",
        "2001:10::1 2001:1ff:ffff::1 fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fdff:ffff::1",
        "fe80::1 febf:ffff::1 fec0::1 feff::1 ff02::1 ff0e::1 4000::1 8000::1 e000::1 1::1",
        "5f00::1"})
    expectRefused(text);
}

TEST(Addresses, RefusesTranslationsOfRefusedAddresses) {
  for (const std::string_view text :
       {"64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::0.0.0.0",
        "64:ff9b::168.63.129.16", "2002:a9fe:a9fe::", "2002:a9fe:a9fe::1", "2002:0a00:0001::1",
        "2002:7f00:0001::", "2002:c0a8:0101:1:2:3:4:5", "2002:c612:0001::"})
    EXPECT_TRUE(isRefused(text)) << text;
  EXPECT_FALSE(isRefused("64:ff9b::8.8.8.8"));
  EXPECT_FALSE(isRefused("2002:0808:0808::1"));
}

TEST(Addresses, AllowsPublicAndDocumentationAddresses) {
  for (const std::string_view text : {"1.1.1.1",         "8.8.8.8",
                                      "9.255.255.255",   "11.0.0.0",
                                      "100.63.255.255",  "100.128.0.0",
                                      "126.255.255.255", "128.0.0.0",
                                      "169.253.255.255", "169.255.0.0",
                                      "172.15.255.255",  "172.32.0.0",
                                      "192.167.255.255", "192.169.0.0",
                                      "198.17.255.255",  "198.20.0.0",
                                      "223.255.255.255", "168.63.129.15",
                                      "192.0.2.53",      "198.51.100.10",
                                      "203.0.113.7",     "2606:4700::1111",
                                      "2001:200::1",     "2001:db8::1",
                                      "3fff::1",         "2001:4860:4860::8888"})
    EXPECT_FALSE(isRefused(text)) << text;
}

TEST(Addresses, AnOperatorsNetworkAllowsPrivateAddressesOnly) {
  const std::vector<Network> internal = {
      *Network::parse("10.1.0.0/16"), *Network::parse("127.0.0.0/8"), *Network::parse("fd12::/16")};
  EXPECT_FALSE(isRefused("10.1.2.3", internal));
  EXPECT_FALSE(isRefused("127.0.0.1", internal));
  EXPECT_FALSE(isRefused("fd12::7", internal));
  EXPECT_TRUE(isRefused("10.2.0.1", internal));
  EXPECT_TRUE(isRefused("fd13::7", internal));
  const std::vector<Network> all = {*Network::parse("0.0.0.0/0"), *Network::parse("::/0")};
  for (const std::string_view text :
       {"169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "fe80::1", "ff02::1",
        "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "64:ff9b::10.0.0.1"})
    EXPECT_TRUE(isRefused(text, all)) << text;
}

TEST(Addresses, RefusesTheSyntheticPoolEvenIfListed) {
  const AddressRules rules{.pool = *Network::parse("28.0.0.0/8"), .isOurs = {}};
  EXPECT_TRUE(isRefused("28.1.2.3", {}, rules));
  EXPECT_TRUE(isRefused("28.1.2.3", {*Network::parse("28.0.0.0/8")}, rules));
  EXPECT_TRUE(isRefused("64:ff9b::28.1.2.3", {}, rules));
  EXPECT_FALSE(isRefused("28.1.2.3"));
  EXPECT_TRUE(isRefused("198.18.0.3", {}, rules));
}

TEST(Addresses, RefusesTheHostsOwnAddressesUnlessListed) {
  const AddressRules rules{.pool = {}, .isOurs = [](const Address& address) {
                             return address.text() == "198.51.100.9";
                           }};
  EXPECT_TRUE(isRefused("198.51.100.9", {}, rules));
  EXPECT_TRUE(isRefused("64:ff9b::198.51.100.9", {}, rules));
  EXPECT_FALSE(isRefused("198.51.100.10", {}, rules));
  EXPECT_FALSE(isRefused("198.51.100.9", {*Network::parse("198.51.100.0/24")}, rules));
}

TEST(Addresses, OneBadAddressRefusesTheWholeAnswer) {
  const AddressRules rules;
  EXPECT_TRUE(checkAnswer("a.test", {addressOf("198.51.100.1")}, {}, rules));
  for (const std::string_view bad : {"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"}) {
    const auto checked = checkAnswer(
        "a.test", {addressOf("198.51.100.1"), addressOf(bad), addressOf("2001:db8::1")}, {}, rules);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Code::kDenied);
    EXPECT_TRUE(checked.error().message.contains(bad)) << checked.error().message;
    EXPECT_TRUE(checked.error().message.contains("a.test")) << checked.error().message;
  }
  const auto none = checkAnswer("a.test", {}, {}, rules);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cloister::egress
