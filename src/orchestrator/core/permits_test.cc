// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/permits.h"

#include <gtest/gtest.h>

#include "async/run_task.h"
#include "model/config.h"
#include "policy/current.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

class PermitsTest : public testing::Test {
 protected:
  PermitsTest() {
    node_.offer.runtimes = {"process"};
    request_.command = std::string("true");
    model::settle(request_.limits);
    principal_.tenant = "acme";
    principal_.agent = "agent";
  }
  void follow(const std::string& rule) {
    policy_.set(*policy::parsePolicy("version: 2\nrules:\n  - " + rule + "\n", "test",
                                     model::defaultBounds().max));
  }
  Ruling rule() { return {.policy = policy_.get(), .trace = {}}; }
  [[nodiscard]] Subject subject() const {
    return {.operation = "run",
            .request = request_,
            .principal = principal_,
            .risk_facts = risks_,
            .held = held_,
            .language = language_,
            .execution_id = "exec_1",
            .spec_sha256 = "abc"};
  }

  policy::Current policy_;
  EmbeddedEngine engine_{policy_};
  const base::SigningKey key_ = base::SigningKey::generate();
  NodeState node_;
  const Permits permits_{engine_, key_, node_, Millis(30'000)};
  model::RunRequest request_;
  model::Principal principal_;
  policy::RiskFacts risks_;
  std::shared_ptr<const policy::HeldRules> held_;
  const std::string language_ = "command";
};

TEST_F(PermitsTest, SignsWhatPolicyAllows) {
  follow("{name: all, why: a test, effect: allow}");
  const Permission granted = permits_.ask(rule(), subject(), "permit_1");
  ASSERT_TRUE(granted) << granted.error().reason;
  EXPECT_TRUE(key_.verifyKey().verify(granted->permit.encoded, granted->permit.signature));
  const auto decoded = wire::decodePermit(granted->permit.encoded);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->id, "permit_1");
  EXPECT_EQ(decoded->execution_id, "exec_1");
  EXPECT_EQ(decoded->spec_sha256, "abc");
  EXPECT_EQ(decoded->expires - decoded->not_before, 30'000'000);
}

TEST_F(PermitsTest, APermitHasTheRulesOfItsAgent) {
  follow("{name: all, why: a test, effect: allow}");
  policy::HeldRules rules;
  rules.walls.hidden = {"/workspace/secrets/*"};
  rules.cpu_millis = 250;
  held_ = std::make_shared<const policy::HeldRules>(rules);
  const Permission granted = permits_.ask(rule(), subject(), "permit_1");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->fields.walls, rules.walls);
  EXPECT_EQ(granted->fields.agent, "agent");
  EXPECT_EQ(granted->fields.agent_cpu_millis, 250U);
}

TEST_F(PermitsTest, TheNetworkIsSignedAndBoundToThePermit) {
  follow("{name: net, why: a test, effect: allow, network: [\"a.example.com:443\"]}");
  request_.network.tier = "restricted";
  policy::HeldRules rules;
  rules.network.requests_per_minute = 3;
  held_ = std::make_shared<const policy::HeldRules>(rules);
  const Permission granted = permits_.ask(rule(), subject(), "permit_1");
  ASSERT_TRUE(granted) << granted.error().reason;
  ASSERT_TRUE(granted->network);
  EXPECT_EQ(granted->network->permit, "permit_1");
  EXPECT_EQ(granted->network->requests_per_minute, 3U);
  const model::SignedPlan plan = permits_.signPlan(*granted->network);
  EXPECT_EQ(base::sha256Hex(plan.encoded), granted->fields.network_plan_sha256);
  EXPECT_TRUE(key_.verifyKey().verify(plan.encoded, plan.signature));
  EXPECT_EQ(model::decodePlan(plan.encoded), *granted->network);
  EXPECT_EQ(wire::decodePermit(granted->permit.encoded)->network_plan_sha256,
            granted->fields.network_plan_sha256);
}

TEST_F(PermitsTest, ALaterPlanFollowsThePresentRules) {
  request_.network.tier = "restricted";
  follow("{name: net, why: a test, effect: allow, network: [\"a.example.com:443\"]}");
  Subject session = subject();
  session.inside = "process";
  const auto before = permits_.network(rule(), session, "permit_1");
  ASSERT_TRUE(before) << before.error().reason;
  EXPECT_EQ(before->rules.at(0).entry.name, "a.example.com");
  follow("{name: net, why: a test, effect: allow, network: [\"b.example.com:443\"]}");
  EXPECT_EQ(permits_.network(rule(), session, "permit_1")->rules.at(0).entry.name, "b.example.com");
  follow("{name: net, why: a test, effect: deny}");
  EXPECT_EQ(permits_.network(rule(), session, "permit_1").error().rule, "net");
  request_.network.tier = "none";
  follow("{name: net, why: a test, effect: allow}");
  EXPECT_FALSE(permits_.network(rule(), session, "permit_1"));
}

TEST_F(PermitsTest, TheOperatorsDestinationsAreInternal) {
  follow("{name: net, why: a test, effect: allow, match: {network_tiers: [internal]}}");
  request_.network.tier = "internal";
  EXPECT_FALSE(permits_.ask(rule(), subject(), "permit_1"));
  const Permits permits(engine_, key_, node_, Millis(30'000),
                        model::readInternal({"git.corp.example:443", "10.1.0.0/16"}).value());
  const Permission granted = permits.ask(rule(), subject(), "permit_1");
  ASSERT_TRUE(granted) << granted.error().reason;
  EXPECT_TRUE(granted->network->rules.at(0).internal);
}

TEST_F(PermitsTest, ADenialStandsWhoeverApproves) {
  follow("{name: none, why: a test, effect: deny}");
  const auto always = [](const policy::NeedsApproval*) { return true; };
  const Permission denied = permits_.ask(rule(), subject(), "permit_1", always);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().rule, "none");
}

TEST_F(PermitsTest, AnApprovalCountsAsFarAsItGoes) {
  follow("{name: watched, why: a test, effect: approve, approve: {roles: [approver]}}");
  EXPECT_TRUE(std::holds_alternative<policy::NeedsApproval>(permits_.judge(rule(), subject())));
  EXPECT_TRUE(permits_.ask(rule(), subject(), "permit_1").error().for_approval);
  const auto covers = [](bool what) {
    return [what](const policy::NeedsApproval*) { return what; };
  };
  EXPECT_FALSE(permits_.ask(rule(), subject(), "permit_1", covers(false)));
  EXPECT_TRUE(permits_.ask(rule(), subject(), "permit_1", covers(true)));
  const Permits::Approval refuses = [](const policy::NeedsApproval* wanted) {
    return std::unexpected(
        policy::Denied{.rule = wanted->rule, .reason = "it was used", .remedy = ""});
  };
  EXPECT_EQ(permits_.ask(rule(), subject(), "permit_1", refuses).error().reason, "it was used");
}

}  // namespace
}  // namespace cloister::orchestrator
