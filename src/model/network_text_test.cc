// SPDX-License-Identifier: Apache-2.0
#include "model/network_text.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

TEST(NetworkText, NamesRefusedDestinationsWithTheirRemedy) {
  NetworkUse use;
  DeniedDestination& evil = use.denied.emplace_back();
  evil.host = "evil.test";
  evil.port = 443;
  evil.reason = "No rule names it.";
  evil.remedy = "Add it to network_policy.allow.";
  evil.count = 3;
  use.denied.emplace_back().host = "10.0.0.1";
  use.denied.back().rule = "pypi";
  use.denied_left_out = 5;
  EXPECT_EQ(networkLines(use),
            (std::vector<std::string>{
                "evil.test:443 was refused 3 times: No rule names it.; Add it "
                "to network_policy.allow.",
                "10.0.0.1 was refused by rule pypi", "5 further destinations were refused"}));
}

TEST(NetworkText, ShowsTheHint) {
  NetworkUse use;
  use.hint = "no network";
  EXPECT_EQ(networkLines(use), std::vector<std::string>{"no network"});
}

TEST(NetworkText, IsEmptyWhereNothingWasRefused) {
  NetworkUse use;
  use.connections = 3;
  EXPECT_TRUE(networkLines(use).empty());
}

TEST(NetworkText, PrintsNoControlCharacters) {
  NetworkUse use;
  use.denied.emplace_back().host = "a\x1b[2J\n.test";
  const auto lines = networkLines(use);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_FALSE(lines[0].contains('\x1b'));
  EXPECT_FALSE(lines[0].contains('\n'));
}

}  // namespace
}  // namespace cloister::model
