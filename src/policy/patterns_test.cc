// SPDX-License-Identifier: Apache-2.0
// Patterns in the conditions of rules, and where there can be none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR

namespace cloister::policy {
namespace {

using ::testing::AllOf;
using testing::errorOf;
using ::testing::HasSubstr;
using testing::policyOf;
using testing::ruleOf;

std::string errorOfMatch(const std::string& match) {
  return errorOf("version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {" + match +
                 "}}\n");
}

TEST(PolicyPatterns, AnAsteriskIsOneInEachCondition) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"tenants: [\"prod-*\"]", R"("principal":{"tenant":"prod-7"})"},
      {"apps: [\"ba*h\"]", R"("principal":{"app":"batch"})"},
      {"agents: [\"*-bot\"]", R"("principal":{"agent":"night-bot"})"},
      {"users: [\"*@example.org\"]", R"("principal":{"user":"ann@example.org"})"},
      {"roles: [\"*admin\"]", R"("principal":{"roles":["tenant-admin"]})"},
      {"operations: [\"f*\"]", R"("session":true,"operation":"files")"},
  };
  for (const auto& [match, asked] : cases) {
    const Policy policy = policyOf("  - {name: no, why: w, effect: deny, match: {" + match +
                                   "}}\n  - {name: rest, why: w, effect: allow, tier: Auto}\n");
    const std::string request = R"({"request":{"language":"python","code":"1"})";
    EXPECT_EQ(ruleOf(policy, request + "," + std::string(asked) + "}"), "no") << match;
    EXPECT_EQ(ruleOf(policy, request + "}"), "rest") << match;
  }
}

TEST(PolicyPatterns, AlsoInWhatTheRequestSays) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"languages: [\"py*\"]", R"({"request":{"language":"python","code":"1"}})"},
      {"network_tiers: [\"*i*\"]",
       R"({"request":{"command":"ls","network_policy":{"tier":"api"}}})"},
      {"tool_types: [\"mcp_*\"]",
       R"({"request":{"command":"ls","metadata":{"tool_type":"mcp_stdio"}}})"},
      {"dependencies: {any_of: [\"tensor*\"]}",
       R"({"request":{"command":"ls","deps":["numpy","tensorflow==2"]}})"},
      {"dependencies: {only: [\"@acme/*\"]}",
       R"({"request":{"command":"ls","deps":["@acme/a@1","@acme/b"]}})"},
  };
  for (const auto& [match, asked] : cases) {
    const Policy policy = policyOf("  - {name: no, why: w, effect: deny, match: {" + match +
                                   "}}\n  - {name: rest, why: w, effect: allow, tier: Auto}\n");
    EXPECT_EQ(ruleOf(policy, asked), "no") << match;
    EXPECT_EQ(ruleOf(policy, R"({"request":{"command":"ls","deps":["requests"]}})"), "rest")
        << match;
  }
}

TEST(PolicyPatterns, WhereNoneIsPossibleItIsAnError) {
  EXPECT_THAT(errorOfMatch("tenants: [\"prod-?\"]"), HasSubstr("only * is one"));
  EXPECT_THAT(errorOfMatch("dependencies: {only: [\"num?y\"]}"), HasSubstr("only * is one"));
  EXPECT_THAT(errorOfMatch("network_tiers: [\"x*\"]"), HasSubstr("is none of none, restricted"));
  EXPECT_THAT(errorOf("version: 2\nrisk: {tenants: {\"prod-*\": 5}}\nrules: [{name: a, why: b, "
                      "effect: deny}]\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("risk.tenants.prod-*"),
                    HasSubstr("a pattern cannot stand here")));
  const std::string grant = "version: 2\nrules:\n  - {name: a, why: b, effect: allow, ";
  EXPECT_THAT(errorOf(grant + "image: \"py*\"}\n"), HasSubstr("rules[0].image"));
  EXPECT_THAT(errorOf(grant + "operations: [\"e*\"]}\n"), HasSubstr("rules[0].operations"));
  EXPECT_THAT(errorOf(grant + "runtime: \"g*\"}\n"), HasSubstr("rules[0].runtime"));
}

TEST(PolicyPatterns, EachNetworkTierCanBeNamed) {
  for (const std::string tier : {"none", "restricted", "internal", "api", "full"}) {
    const Policy policy = policyOf("  - {name: no, why: w, effect: deny, match: {network_tiers: [" +
                                   tier + "]}}\n  - {name: rest, why: w, effect: allow}\n");
    const std::string asked = R"({"request":{"command":"ls","network_policy":{"tier":")";
    EXPECT_EQ(ruleOf(policy, asked + tier + "\"}}}"), "no");
    EXPECT_EQ(ruleOf(policy, asked + (tier == "none" ? "full" : "none") + "\"}}}"), "rest");
  }
}

}  // namespace
}  // namespace cloister::policy
