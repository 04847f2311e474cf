// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "policy/agent/walls.h"

namespace cloister::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNow = 1'000'000;

const Levels& shipped() {
  static const Levels kLevels =
      parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
          .value();
  return kLevels;
}

AgentRules rulesAt(const std::string& level, const auto& change) {
  model::AgentSandbox sandbox;
  sandbox.tenant = "acme";
  sandbox.agent = "alice";
  sandbox.level = level;
  change(sandbox);
  return makeAgentRules(shipped(), sandbox).value();
}

AgentNetwork networkAt(const std::string& level, const auto& change) {
  return networkOf(rulesAt(level, change), kNow);
}
AgentNetwork networkAt(const std::string& level) {
  return networkAt(level, [](model::AgentSandbox&) {});
}

std::vector<std::string> destinations(std::string_view pattern) {
  std::vector<std::string> texts;
  for (const model::NetworkEntry& entry : destinationsOf(pattern))
    texts.push_back(destinationText(entry));
  return texts;
}

TEST(AgentNetwork, IsThatOfTheLevel) {
  EXPECT_EQ(networkAt("isolated").access, "denied");
  EXPECT_EQ(networkAt("restricted").access, "internal_only");
  EXPECT_EQ(networkAt("standard").access, "allowed_with_monitoring");
  EXPECT_EQ(networkAt("unrestricted").access, "allowed");
  EXPECT_EQ(networkAt("standard").requests_per_minute, 0U);
}

TEST(AgentNetwork, AGrantOpensAndARevocationCloses) {
  const auto granted = [](auto& sandbox) { sandbox.granted_operations = {"network"}; };
  const auto revoked = [](auto& sandbox) {
    sandbox.revoked_operations = {"network"};
    sandbox.temporary_permissions = {{"network", "a.example.com:443", kNow + 1, "ESC-2026-001"}};
  };
  EXPECT_EQ(networkAt("isolated", granted).access, "allowed");
  EXPECT_EQ(networkAt("unrestricted", revoked).access, "denied");
  EXPECT_THAT(networkAt("unrestricted", revoked).approved, IsEmpty());
}

TEST(AgentNetwork, HasTheBoundOfTheAgent) {
  const auto bounded = [](auto& sandbox) { sandbox.limits.requests_per_minute = 5; };
  EXPECT_EQ(networkAt("standard", bounded).requests_per_minute, 5U);
  AgentRules rules = rulesAt("standard", [](auto&) {});
  rules.limits.requests_per_minute = 0;
  EXPECT_EQ(networkOf(rules, kNow).access, "denied") << "no requests are none";
}

TEST(AgentNetwork, HasTheApprovedDestinations) {
  const auto approved = [](auto& sandbox) {
    sandbox.temporary_permissions = {
        {"network", "https://a.example.com/", kNow + 1, "ESC-2026-001"},
        {"network", "late.example.com:443", kNow, "ESC-2026-002"},
        {"file_read", "b.example.com:443", kNow + 1, "ESC-2026-003"},
        {"network", "rule.example.com:443", kNow + 1, "ESC-2026-004", true}};
  };
  const AgentNetwork network = networkAt("isolated", approved);
  ASSERT_EQ(network.approved.size(), 1U);
  EXPECT_EQ(destinationText(network.approved[0].entry), "a.example.com:443 tls");
  EXPECT_EQ(network.approved[0].escalation, "ESC-2026-001");
  EXPECT_EQ(network.approved[0].expires_at, kNow + 1);
  const HeldRules held = wallsOf(rulesAt("isolated", approved), kNow).value();
  EXPECT_EQ(held.network.approved, network.approved);
}

TEST(AgentNetwork, AnApprovalNamesAHostAPortOrAUrl) {
  EXPECT_THAT(destinations("pypi.org"), ElementsAre("pypi.org:443 tls", "pypi.org:80 http"));
  EXPECT_THAT(destinations("*.pypi.org:443"), ElementsAre("*.pypi.org:443 tls"));
  EXPECT_THAT(destinations("db.example.com:5432"), ElementsAre("db.example.com:5432 tcp"));
  EXPECT_THAT(destinations("https://pypi.org"), ElementsAre("pypi.org:443 tls"));
  EXPECT_THAT(destinations("https://pypi.org:8443/*"), ElementsAre("pypi.org:8443 tls"));
  EXPECT_THAT(destinations("http://m.example.com/debian/*"),
              ElementsAre("m.example.com:80 http /debian/*"));
  EXPECT_THAT(destinations("tcp://db.example.com:5432"), ElementsAre("db.example.com:5432 tcp"));
}

TEST(AgentNetwork, WhatAPlanCannotSayOpensNothing) {
  for (const char* pattern :
       {"https://pypi.org/simple/*", "http://m.example.com/a?b=*", "pypi*", "*", "10.0.0.1",
        "10.0.0.1:80", "[::1]:80", "pypi.org:0", "pypi.org:x", "tcp://db.example.com",
        "https://user@pypi.org/", "https://", "ftp://pypi.org/", "http://*/", ""}) {
    EXPECT_THAT(destinations(pattern), IsEmpty()) << pattern;
    const auto refused = opensDestination(nullptr, pattern);
    ASSERT_FALSE(refused) << pattern;
    EXPECT_EQ(refused.error().field, "host");
  }
  EXPECT_THAT(opensDestination(nullptr, "10.0.0.1").error().message,
              HasSubstr("host: an approval would open nothing: \"10.0.0.1\" is no destination"));
}

TEST(AgentNetwork, ADestinationIsAskedForUnlessTheNetworkWasRevoked) {
  EXPECT_TRUE(opensDestination(nullptr, "pypi.org"));
  const AgentRules rules = rulesAt("isolated", [](auto&) {});
  EXPECT_TRUE(opensDestination(&rules, "*.pypi.org:443"));
  const AgentRules revoked =
      rulesAt("standard", [](auto& sandbox) { sandbox.revoked_operations = {"network"}; });
  EXPECT_THAT(opensDestination(&revoked, "pypi.org").error().message,
              HasSubstr("network was revoked for agent "));
}

TEST(AgentNetwork, ABoundWithoutANetworkIsReported) {
  const auto bounded = [](auto& sandbox) { sandbox.limits.requests_per_minute = 5; };
  EXPECT_THAT(warningsOf(rulesAt("isolated", bounded)),
              ElementsAre(HasSubstr("requests_per_minute has no effect")));
  EXPECT_THAT(warningsOf(rulesAt("standard", bounded)), IsEmpty());
}

}  // namespace
}  // namespace cloister::policy
