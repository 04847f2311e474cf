// SPDX-License-Identifier: Apache-2.0
// Networks of agents: by their level, and by approvals.
#include "orchestrator/guard/agents_fixture.h"

namespace cloister::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A run that may reach these destinations; its command is one of the level's.
model::ExecRequest connecting(std::string_view network) {
  model::ExecRequest request;
  request.run.command = std::vector<std::string>{"echo", "x"};
  request.run.network =
      model::readNetworkRequest(base::parseJson(network).value().get_object(), "network_policy")
          .value();
  model::settle(request.run.limits);
  return request;
}

using AgentNetworks = AgentsTest;

TEST_F(AgentNetworks, AnApprovalOpensADestinationForLaterRuns) {
  openGuarded();
  give("look");
  model::Principal who = principal();
  who.agent = "agent";
  constexpr std::string_view kNetwork =
      R"({"tier":"restricted","allow":["a.example.com:443","db.example.com:5432"]})";
  const auto judge = [&](std::string_view network) {
    model::ExecRequest request = connecting(network);
    auto judged = guard_->judgeRun(who, request, nullptr, {});
    EXPECT_TRUE(judged) << judged.error().message;
    return judged ? *std::move(judged) : AgentJudgement{};
  };
  const auto refused = judge(kNetwork).refusal;
  ASSERT_TRUE(refused);
  std::vector<std::string> wanted;
  for (const model::WantedOperation& each : refused->wants)
    wanted.push_back(each.operation + " " + each.target);
  EXPECT_THAT(wanted, ElementsAre("network https://a.example.com:443",
                                  "network tcp://db.example.com:5432"));
  approve("network", "https://a.example.com:443");
  EXPECT_EQ(judge(kNetwork).refusal->wants.size(), 1U);
  approve("network", "tcp://db.example.com:5432");
  const AgentJudgement open = judge(kNetwork);
  EXPECT_FALSE(open.refusal);
  ASSERT_TRUE(open.held);
  EXPECT_EQ(open.held->network.approved.size(), 2U);
  EXPECT_FALSE(judge(R"({"tier":"restricted"})").refusal) << "everything that is approved";
  const auto full = judge(R"({"tier":"full"})").refusal;
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->wants.empty()) << "no approval opens another tier";
  EXPECT_THAT(full->denied.reason, HasSubstr("has no network"));
}

TEST_F(AgentNetworks, AnAgentWithoutRulesHasItsApprovedDestinations) {
  openGuarded();
  const std::string id = approve("network", "a.example.com:443");
  model::Principal who = principal();
  who.agent = "agent";
  const auto held = [&](std::string_view network) {
    model::ExecRequest request = connecting(network);
    return guard_->judgeRun(who, request, nullptr, {})->held;
  };
  const Held open = held(R"({"tier":"restricted"})");
  ASSERT_TRUE(open);
  ASSERT_EQ(open->network.approved.size(), 1U);
  EXPECT_EQ(open->network.approved[0].escalation, id);
  EXPECT_EQ(open->network.access, "allowed");
  EXPECT_TRUE(open->walls.none());
  EXPECT_FALSE(held(R"({"tier":"none"})"));
  who.agent = "other";
  EXPECT_FALSE(held(R"({"tier":"restricted"})"));
  who.agent.clear();
  EXPECT_FALSE(held(R"({"tier":"restricted"})"));
}

TEST_F(AgentNetworks, ApprovedDestinationsAreNotForVisitors) {
  openGuarded("look");
  model::Principal maker = principal();
  maker.agent = "agent";
  model::Principal visitor = maker;
  visitor.agent = "visitor";
  policy::HeldRules plain;
  policy::HeldRules open;
  open.network.approved.resize(1);
  const auto refusal = [&](const policy::HeldRules& has) {
    Held held = std::make_shared<const policy::HeldRules>(has);
    return guard_->tooOpen(visitor, {.maker = maker, .held = held}).value();
  };
  plain.walls = guard_->standingFor(visitor).value()->walls;
  open.walls = plain.walls;
  EXPECT_FALSE(refusal(plain));
  EXPECT_TRUE(refusal(open));
}

TEST(LetsMore, ComparesTheNetworkOfASession) {
  policy::HeldRules rules;
  const auto lets_more = [&](std::string_view access, std::string_view tier) {
    rules.network.access = access;
    return letsMore(nullptr, rules, tier);
  };
  EXPECT_TRUE(lets_more("denied", "internal"));
  EXPECT_TRUE(lets_more("internal_only", "restricted"));
  EXPECT_FALSE(lets_more("internal_only", "internal"));
  EXPECT_FALSE(lets_more("allowed_with_monitoring", "full"));
  EXPECT_FALSE(lets_more("denied", "none")) << "the session has none";
}

}  // namespace
}  // namespace cloister::orchestrator
