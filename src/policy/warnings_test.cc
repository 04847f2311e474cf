// SPDX-License-Identifier: Apache-2.0
// The warnings of `policy check`.
#include "policy/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR

namespace cloister::policy {
namespace {

using ::testing::AllOf;
using testing::asking;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::policyOf;

std::vector<std::string> warnings(std::string_view rules, std::string_view settings = "") {
  return warningsOf(policyOf(rules, settings), asking().parts());
}

TEST(PolicyWarnings, OneRuleBeforeItMatchesAllOfIt) {
  EXPECT_THAT(warnings("  - {name: prod, why: w, effect: deny, match: {tenants: [\"prod-*\"]}}\n"
                       "  - {name: eu, why: w, effect: allow, match: {tenants: [prod-eu, "
                       "\"prod-us-*\"], session: true}}\n"
                       "  - {name: rest, why: w, effect: allow}\n"),
              ElementsAre(AllOf(HasSubstr("rule \"eu\" never decides: \"prod\" before it"))));
}

TEST(PolicyWarnings, SeveralRulesTogetherMatchAllOfIt) {
  EXPECT_THAT(
      warnings("  - {name: offline, why: w, effect: allow, match: {network_tiers: [none]}}\n"
               "  - {name: online, why: w, effect: deny, match: {network_tiers: [restricted, "
               "internal, api, full]}}\n"
               "  - {name: late, why: w, effect: allow, match: {users: [ann]}}\n"),
      ElementsAre(HasSubstr("rule \"late\" never decides: \"offline\", \"online\" before it")));
  EXPECT_THAT(warnings("  - {name: in, why: w, effect: allow, match: {session: true}}\n"
                       "  - {name: out, why: w, effect: deny, match: {session: false}}\n"
                       "  - {name: late, why: w, effect: allow}\n"),
              ElementsAre(HasSubstr("\"late\" never decides")));
}

TEST(PolicyWarnings, ATierWithoutDestinationsGrantsNothing) {
  const auto of = [](const std::string& members) {
    return warnings("  - {name: net, why: w, effect: allow, " + members + "}\n");
  };
  EXPECT_THAT(of("match: {network_tiers: [restricted]}"),
              ElementsAre(HasSubstr("restricted and grants no destination")));
  EXPECT_THAT(of("match: {network_tiers: [full]}, network: [\"a.example.com:443\"]"),
              ElementsAre(HasSubstr("without an entry of network for the name *")));
  EXPECT_THAT(of("match: {network_tiers: [none, api]}, network: [\"a.example.com:443\"]"),
              ElementsAre(HasSubstr("leaves out every tier")));
  EXPECT_THAT(of("match: {network_tiers: [restricted]}, network: [\"a.example.com:443\"]"),
              IsEmpty());
  EXPECT_THAT(of("match: {network_tiers: [full]}, network: [{name: \"*\"}]"), IsEmpty());
  EXPECT_THAT(of("network: [\"a.example.com:443\"]"), IsEmpty());
}

TEST(PolicyWarnings, NoRequestIsLikeThat) {
  EXPECT_THAT(warnings("  - {name: odd, why: w, effect: deny, match: {operations: [run], session: "
                       "true}}\n  - {name: rest, why: w, effect: allow}\n"),
              ElementsAre(HasSubstr("\"odd\" never decides: no request has both")));
  EXPECT_THAT(warnings("  - {name: high, why: w, effect: deny, match: {risk: {at_least: 31}}}\n"
                       "  - {name: rest, why: w, effect: allow}\n",
                       "risk: {languages: {bash: 20}, dependencies: {each: 5, most: 10}}\n"),
              ElementsAre(HasSubstr("\"high\" never decides: no score is more than 30")));
}

TEST(PolicyWarnings, RulesThatCanMatchAreNotNamed) {
  EXPECT_THAT(
      warnings(
          "  - {name: a, why: w, effect: deny, match: {tenants: [\"prod-*\"], risk: {at_least: "
          "10}}}\n"
          "  - {name: b, why: w, effect: deny, match: {tenants: [\"*\"], session: true}}\n"
          "  - {name: c, why: w, effect: deny, match: {roles: [agent], dependencies: any}}\n"
          "  - {name: d, why: w, effect: deny, match: {dependencies: {any_of: [x]}}}\n"
          "  - {name: e, why: w, effect: deny, match: {dependencies: {only: [x, y]}}}\n"
          "  - {name: f, why: w, effect: allow, match: {tenants: [prod-1]}}\n"
          "  - {name: g, why: w, effect: allow}\n",
          "risk: {languages: {bash: 20}}\n"),
      IsEmpty());
}

TEST(PolicyWarnings, DependenciesTooCanBeCovered) {
  EXPECT_THAT(warnings("  - {name: a, why: w, effect: deny, match: {dependencies: {any_of: "
                       "[\"tensor*\"]}}}\n"
                       "  - {name: b, why: w, effect: allow, match: {dependencies: {any_of: "
                       "[tensorflow]}}}\n"
                       "  - {name: c, why: w, effect: allow}\n"),
              ElementsAre(HasSubstr("rule \"b\" never decides: \"a\" before it")));
}

// --- approvers ---

TEST(PolicyWarnings, ApproversWhoNeverDecide) {
  const auto of = [](const std::string& roles) {
    return warnings("  - {name: gate, why: w, effect: approve, tier: Auto, approve: {roles: [" +
                    roles + "]}}\n");
  };
  EXPECT_THAT(of("agent"), ElementsAre("rule \"gate\": approve.roles: a credential that runs code "
                                       "(agent) never decides; name one of operator, approver, "
                                       "tenant-admin, admin"));
  EXPECT_THAT(of("approver, viewer, metrics"),
              ElementsAre(HasSubstr("the role viewer alone never decides"),
                          HasSubstr("the role metrics alone never decides")));
  EXPECT_THAT(of("operator, approver, tenant-admin, admin"), IsEmpty());
}

TEST(PolicyWarnings, ApproversOfATierWhoNeverDecide) {
  const std::string_view rest = "  - {name: rest, why: w, effect: allow}\n";
  EXPECT_THAT(warnings(rest, "tiers:\n  Assisted: {runtime: gvisor, approve: {roles: [agent]}}\n"),
              ElementsAre(HasSubstr("tiers.Assisted.approve.roles: a credential that runs code")));
}

// --- the page ---

TEST(PolicyWarnings, TheFirstDocumentOfThePageGuards) {
  const std::string page = base::readFile(CLOISTER_SOURCE_DIR "/docs/POLICY.md").value();
  constexpr std::string_view kOpen = "```yaml\nversion: 2\n";
  const size_t begin = page.find(kOpen);
  ASSERT_NE(begin, std::string::npos);
  const size_t at = begin + std::string_view("```yaml\n").size();
  const auto policy = testing::parse(page.substr(at, page.find("```", at) - at));
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_THAT(warningsOf(*policy, asking().parts()), IsEmpty());
  EXPECT_EQ(testing::ruleOf(*policy, R"({"request":{"language":"bash","code":"sudo ls"}})"),
            "look-first");
  EXPECT_EQ(testing::ruleOf(*policy, R"({"request":{"language":"bash","code":"ls"}})"), "the-rest");
}

// --- limits and names ---

TEST(PolicyWarnings, AMaxThatNothingFitsIn) {
  EXPECT_THAT(
      warnings("  - {name: tiny, why: w, effect: allow, max: {memory_mb: 8, pids: 1}}\n"),
      ElementsAre(AllOf(HasSubstr("rule \"tiny\": max.memory_mb"), HasSubstr("at least 16")),
                  HasSubstr("rule \"tiny\": max.pids")));
}

TEST(PolicyWarnings, NamesThatNobodyKnows) {
  const std::string settings = "risk: {languages: {cobol: 3, other: 1}, roles: {king: 1}}\n";
  EXPECT_THAT(
      warnings(
          "  - {name: a, why: w, effect: deny, match: {languages: [cobol, py, python, \"py*\", "
          "command]}}\n"
          "  - {name: b, why: w, effect: allow, image: gone, images: [\"old-*\", host, "
          "\"*\"]}\n",
          settings),
      ElementsAre(HasSubstr("rule \"a\": match.languages: \"cobol\" is no language"),
                  HasSubstr("rule \"a\": match.languages: \"py\" is another name of the language "
                            "\"python\""),
                  HasSubstr("rule \"b\": image: \"gone\" is not on this node"),
                  HasSubstr("rule \"b\": images: \"old-*\" is not on this node"),
                  HasSubstr("risk.languages: \"cobol\""), HasSubstr("risk.roles: \"king\"")));
}

}  // namespace
}  // namespace cloister::policy
