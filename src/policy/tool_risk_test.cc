// SPDX-License-Identifier: Apache-2.0
// The tier of a tool call by the tool's risk: never lowered by policy, and replaced if the operator
// allows a weaker runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tool_rules.h"
#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR

namespace cloister::policy {
namespace {

using testing::asking;
using ::testing::HasSubstr;
using testing::policyOf;

constexpr std::string_view kAll = R"(,"runtimes":["process","gvisor","microvm"])";

Supposed callOf(const std::string& risk, std::string_view runtimes, std::string_view more = "") {
  Supposed supposed = asking().suppose(R"({"request":{"command":"ls")" + std::string(more) + "}" +
                                       std::string(runtimes) + "}");
  const model::ToolRules rules{.capabilities = {"command_execution"},
                               .network = {},
                               .most = {},
                               .bounded = {},
                               .risk = risk,
                               .tier = risk == "medium" ? "Assisted" : "HumanApprove"};
  supposed.request.metadata["cloister.tool"] = "t";
  EXPECT_TRUE(model::holdToRules("t", rules, model::ToolPlace::kOwnSandbox, supposed.request));
  return supposed;
}

TEST(ToolRisk, IsHeldWhateverTheRuleSays) {
  const Policy policy = policyOf("  - {name: all, why: w, effect: allow, tier: Auto}\n");
  const Supposed medium = callOf("medium", kAll);
  const Evaluation made = evaluate(policy, medium.question());
  EXPECT_FALSE(made.denied);
  EXPECT_EQ(made.tier, Tier::kAssisted);
  EXPECT_EQ(made.runtime, "gvisor");
  const Supposed high = callOf("high", kAll);
  EXPECT_NE(evaluate(policy, high.question()).wanted, nullptr) << "a person is to agree";
  const Policy strict = policyOf("  - {name: all, why: w, effect: allow, tier: ManualOnly}\n");
  EXPECT_EQ(evaluate(strict, medium.question()).tier, Tier::kManualOnly)
      << "a rule may be stricter";
}

TEST(ToolRisk, WhoeverApprovesIsToldWhatMadeItNeedThem) {
  const auto reason = [](const Supposed& asked, const std::string& rule,
                         const std::string& tiers = "") {
    const Decision decision = decide(policyOf(rule, tiers), asked.question());
    const auto* wanted = std::get_if<NeedsApproval>(&decision);
    return wanted == nullptr ? std::string("none") : wanted->reason;
  };
  const std::string all = "  - {name: all, why: all may, effect: allow, tier: Auto}\n";
  EXPECT_EQ(reason(callOf("high", kAll), all),
            "risk high of tool t needs tier HumanApprove, which wants an approval");
  EXPECT_EQ(reason(callOf("low", kAll, R"(,"tier":"ManualOnly")"), all),
            "the request asks for tier ManualOnly, which wants an approval");
  EXPECT_EQ(reason(callOf("medium", kAll),
                   "  - {name: all, why: all may, effect: allow, tier: ManualOnly}\n"),
            "rule all sets tier ManualOnly, which wants an approval");
  EXPECT_EQ(reason(callOf("medium", kAll), "  - {name: all, why: all may, effect: allow}\n",
                   "tiers: {Assisted: {from_score: 1}, HumanApprove: {from_score: 2}}\n"
                   "risk: {languages: {command: 7, other: 0}}\n"),
            "score 7 needs tier HumanApprove, which wants an approval");
  EXPECT_EQ(reason(callOf("high", kAll), "  - {name: ask, why: look first, effect: approve}\n"),
            "look first");
}

TEST(ToolRisk, WithoutItsRuntimeItIsRefusedOrNamed) {
  Policy policy = policyOf("  - {name: all, why: w, effect: allow, tier: Auto}\n");
  const Supposed here = callOf("medium", "");
  const Evaluation refused = evaluate(policy, here.question());
  ASSERT_TRUE(refused.denied);
  EXPECT_THAT(refused.denied->reason, HasSubstr("Assisted for risk medium of tool t"));
  policy.allow_weaker = true;
  const Evaluation weaker = evaluate(policy, here.question());
  EXPECT_FALSE(weaker.denied);
  EXPECT_THAT(weaker.weaker, HasSubstr("risk medium of tool t"));
  const Supposed asked = callOf("medium", "", R"(,"tier":"Assisted")");
  EXPECT_TRUE(evaluate(policy, asked.question()).denied) << "the call itself asks for it";
}

}  // namespace
}  // namespace cloister::policy
