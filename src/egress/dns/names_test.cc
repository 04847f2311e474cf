// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/names.h"

#include <gtest/gtest.h>

namespace cloister::egress {
namespace {

base::Network pool(const char* text = "198.18.0.0/15") {
  return base::Network::parse(text).value();
}

base::Address address(const char* text) {
  return base::Address::parse(text).value();
}

TEST(Names, StandForOneNameEach) {
  auto names = Names::make(pool()).value();
  EXPECT_EQ(names.addressOf("a.example.com")->text(), "198.18.0.3");
  EXPECT_EQ(names.addressOf("b.example.com")->text(), "198.18.0.4");
  EXPECT_EQ(names.addressOf("a.example.com")->text(), "198.18.0.3");
  EXPECT_EQ(names.size(), 2U);
  EXPECT_EQ(names.nameOf(address("198.18.0.4")), "b.example.com");
  EXPECT_EQ(names.nameOf(address("198.18.0.5")), std::nullopt);
}

TEST(Names, LeaveOutTheAddressesOfTheDoor) {
  auto names = Names::make(pool()).value();
  (void)names.addressOf("a.example.com");
  for (const char* own : {"198.18.0.0", "198.18.0.1", "198.18.0.2"}) {
    EXPECT_EQ(names.nameOf(address(own)), std::nullopt) << own;
    EXPECT_TRUE(names.inPool(address(own)));
  }
  for (const char* other : {"198.20.0.3", "198.17.255.255", "::1", "10.0.0.3"}) {
    EXPECT_EQ(names.nameOf(address(other)), std::nullopt) << other;
    EXPECT_FALSE(names.inPool(address(other)));
  }
}

TEST(Names, AreBoundedAndKeepTheirAddresses) {
  auto names = Names::make(pool(), 2).value();
  const auto first = names.addressOf("a");
  ASSERT_TRUE(first && names.addressOf("b"));
  EXPECT_EQ(names.addressOf("c"), std::nullopt);
  EXPECT_EQ(names.addressOf("a"), first);
  EXPECT_EQ(names.size(), 2U);
}

TEST(Names, HaveTheRoomOfTheirPool) {
  auto names = Names::make(pool("28.0.0.16/28")).value();
  size_t count = 0;
  while (names.addressOf("n" + std::to_string(count)))
    ++count;
  EXPECT_EQ(count, 12U);  // of 16: three of the door, and the last
  EXPECT_EQ(names.addressOf("n11")->text(), "28.0.0.30");
  EXPECT_EQ(names.nameOf(address("28.0.0.30")), "n11");
  EXPECT_EQ(names.nameOf(address("28.0.0.31")), std::nullopt);
}

TEST(Names, BeginAtAPlaceAndGoRound) {
  auto names = Names::make(pool("28.0.0.16/28"), Names::kMost, 12 + 10).value();
  EXPECT_EQ(names.addressOf("a")->text(), "28.0.0.29");
  EXPECT_EQ(names.addressOf("b")->text(), "28.0.0.30");
  EXPECT_EQ(names.addressOf("c")->text(), "28.0.0.19");
  EXPECT_EQ(names.nameOf(address("28.0.0.29")), "a");
  EXPECT_EQ(names.nameOf(address("28.0.0.19")), "c");
  EXPECT_EQ(names.nameOf(address("28.0.0.20")), std::nullopt);
}

TEST(Names, SurviveAMove) {
  auto before = Names::make(pool()).value();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(before.addressOf(std::to_string(i)));
  const Names after = std::move(before);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(after.nameOf(base::Address::ofV4(0xc6120003U + static_cast<uint32_t>(i))),
              std::to_string(i));
}

TEST(Names, NeedARangeOfIpv4) {
  EXPECT_TRUE(Names::make(pool("0.0.0.0/0")));
  for (const char* text : {"198.18.0.0/29", "198.18.0.1", "2001:db8::/32", "::/0"})
    EXPECT_FALSE(Names::make(pool(text))) << text;
}

}  // namespace
}  // namespace cloister::egress
