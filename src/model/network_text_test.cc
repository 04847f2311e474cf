// SPDX-License-Identifier: Apache-2.0
#include "model/network_text.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

TEST(NetworkText, NamesRefusedDestinationsWithTheirRemedy) {
  NetworkUse use;
  use.denied.push_back({.host = "evil.test",
                        .port = 443,
                        .rule = "",
                        .reason = "No rule names it.",
                        .remedy = "Add it to network_policy.allow.",
                        .count = 3});
  use.denied.push_back({.host = "10.0.0.1", .port = 0, .transport = "icmp", .rule = "pypi"});
  use.denied_left_out = 5;
  EXPECT_EQ(networkLines(use),
            (std::vector<std::string>{"evil.test:443 was refused 3 times: No rule names it.; Add it "
                                      "to network_policy.allow.",
                                      "10.0.0.1 was refused by rule pypi",
                                      "5 further destinations were refused"}));
}

TEST(NetworkText, ShowsTheHint) {
  NetworkUse use;
  use.hint = "no network";
  EXPECT_EQ(networkLines(use), std::vector<std::string>{"no network"});
}

TEST(NetworkText, IsEmptyWhereNothingWasRefused) {
  EXPECT_TRUE(networkLines({.connections = 3, .bytes_in = 10}).empty());
}

TEST(NetworkText, PrintsNoControlCharacters) {
  NetworkUse use;
  use.denied.push_back({.host = "a\x1b[2J\n.test", .port = 1});
  const auto lines = networkLines(use);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_FALSE(lines[0].contains('\x1b'));
  EXPECT_FALSE(lines[0].contains('\n'));
}

}  // namespace
}  // namespace cloister::model
