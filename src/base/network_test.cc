// SPDX-License-Identifier: Apache-2.0
#include "base/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::base {
namespace {

bool contains(const char* network, const char* address) {
  return Network::parse(network).value().contains(Address::parse(address).value());
}

TEST(Address, HasOneForm) {
  EXPECT_EQ(Address::parse("10.0.0.1")->text(), "10.0.0.1");
  EXPECT_EQ(Address::parse("::ffff:10.0.0.1"), Address::parse("10.0.0.1"));
  EXPECT_EQ(Address::parse("2001:DB8::0:1")->text(), "2001:db8::1");
  EXPECT_FALSE(Address::parse("::1")->isV4());
  for (const char* text :
       {"", "10.0.0", "10.0.0.256", "010.0.0.1", "localhost", "::1%lo", "1.2.3.4 "})
    EXPECT_FALSE(Address::parse(text)) << text;
  EXPECT_FALSE(Address::parse(std::string("1.2.3.4\0", 8)));
}

TEST(Network, ContainsWhatItSays) {
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(contains("10.0.0.0/8", "::ffff:10.1.1.1"));
  EXPECT_TRUE(contains("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(contains("0.0.0.0/0", "::1")) << "IPv4 is not all there is";
  EXPECT_TRUE(contains("::/0", "2001:db8::1"));
  EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(contains("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(contains("192.0.2.7", "192.0.2.8"));
  EXPECT_TRUE(contains("192.0.2.6/31", "192.0.2.7"));
}

TEST(Network, LiesWithinAnother) {
  const auto within = [](const char* inner, const char* outer) {
    return Network::parse(outer)->contains(*Network::parse(inner));
  };
  EXPECT_TRUE(within("10.1.0.0/16", "10.0.0.0/8"));
  EXPECT_TRUE(within("10.0.0.0/8", "10.0.0.0/8"));
  EXPECT_FALSE(within("10.0.0.0/8", "10.1.0.0/16"));
  EXPECT_FALSE(within("::/0", "10.0.0.0/8"));
}

TEST(Network, IsWrittenOneWay) {
  EXPECT_EQ(Network::parse("10.0.0.1")->text(), "10.0.0.1/32");
  EXPECT_EQ(Network::parse("2001:db8::/32")->text(), "2001:db8::/32");
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8x", "::/129",
                           "x/8", "10.0.0.0/ 8", ""})
    EXPECT_FALSE(Network::parse(text)) << text;
  EXPECT_THAT(Network::parse("10.1.2.3/16").error().message,
              testing::HasSubstr("write 10.1.0.0/16"));
}

TEST(Network, CountsItsAddresses) {
  const auto network = Network::parse("198.18.0.0/15").value();
  EXPECT_EQ(network.first().text(), "198.18.0.0");
  EXPECT_EQ(network.hostBits(), 17);
  EXPECT_EQ(Address::ofV4(network.first().v4() + 259).text(), "198.18.1.3");
  EXPECT_EQ(Address::ofV4(0xfffefdfc).v4(), 0xfffefdfcU);
}

}  // namespace
}  // namespace cloister::base
