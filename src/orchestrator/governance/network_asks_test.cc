// SPDX-License-Identifier: Apache-2.0
// Escalations of refused destinations, over the real ledger and escalation service.
#include "orchestrator/governance/network_asks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orchestrator/runs/blocking_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::EscalationStatus;
using ::testing::Contains;
using ::testing::HasSubstr;

class NetworkAsksTest : public BlockedAgentTest {
 protected:
  ~NetworkAsksTest() override {
    asks_.reset();
    shut();
  }
  void begin() {
    mayRun("*");
    start();
    asks_ = std::make_shared<NetworkAsks>(control_, service_->approvals(), agents_);
  }
  static wire::egress::Wanted wanted(const std::string& permit, const std::string& host = "b.test",
                                     uint16_t port = 443) {
    wire::egress::Wanted one;
    one.permit = permit;
    one.host = host;
    one.port = port;
    one.protocol = "tls";
    one.rule = "web";
    one.program = "curl";
    return one;
  }
  static DoorOwner owner(const std::string& session = "ses_1") {
    DoorOwner made;
    made.principal = principal();
    made.session_id = session;
    return made;
  }
  std::vector<model::Escalation> escalations() { return *escalations_->list(approver(), {}); }
  void waitForEscalations(size_t count) {
    runUntil([&] { return escalations().size() >= count; });
  }
  void settleAll() {
    for (int i = 0; i < 20; i++)
      io_->run_for(std::chrono::milliseconds(2));
    io_->restart();
  }
  static wire::egress::Attempts refusedAttempt() {
    wire::egress::Attempts attempt;
    attempt.permit = "p1";
    attempt.host = "evil.test";
    attempt.port = 443;
    attempt.reason = "No rule names it.";
    return attempt;
  }

  std::shared_ptr<NetworkAsks> asks_;
};

TEST_F(NetworkAsksTest, AsksForTheDestination) {
  begin();
  asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  const auto e = escalations().at(0);
  EXPECT_EQ(e.operation, "network");
  EXPECT_EQ(e.subject, "b.test:443");
  EXPECT_EQ(e.rule, "web");
  EXPECT_EQ(e.program, "curl");
  EXPECT_EQ(e.session_id, "ses_1");
  EXPECT_EQ(e.requester.agent, "agent");
  EXPECT_THAT(e.display, HasSubstr("b.test:443 (tls)"));
  EXPECT_THAT(e.display, HasSubstr("program: curl"));
  EXPECT_THAT(e.display, HasSubstr("rule web"));
  EXPECT_THAT(auditOf(e.id), Contains("escalation.requested"));
}

TEST_F(NetworkAsksTest, AnApprovalIsARuleOfTheDoor) {
  begin();
  asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  settleAll();
  EXPECT_TRUE(asks_->granted("p1").empty()) << "nobody has approved it";
  const std::string id = escalations().at(0).id;
  ASSERT_TRUE(vote(approver(), id));
  const auto granted = asks_->granted("p1");
  ASSERT_EQ(granted.size(), 1U);
  EXPECT_EQ(granted[0].rule, id);
  EXPECT_EQ(granted[0].entry.name, "b.test");
  EXPECT_EQ(granted[0].entry.ports, std::vector<uint16_t>{443});
  EXPECT_EQ(granted[0].entry.protocol, model::Protocol::kTls);
  EXPECT_TRUE(asks_->granted("p2").empty());
  asks_->closed("p1");
  EXPECT_TRUE(asks_->granted("p1").empty());
}

TEST_F(NetworkAsksTest, ADenialGrantsNothing) {
  begin();
  asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  settleAll();
  ASSERT_TRUE(vote(approver(), escalations().at(0).id, false));
  EXPECT_TRUE(asks_->granted("p1").empty());
}

TEST_F(NetworkAsksTest, ARevokedApprovalGrantsNothing) {
  begin();
  asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  settleAll();
  const std::string id = escalations().at(0).id;
  ASSERT_TRUE(vote(approver(), id));
  ASSERT_EQ(asks_->granted("p1").size(), 1U);
  ASSERT_TRUE(vote(approver("other"), id, false)) << "taken back";
  EXPECT_TRUE(asks_->granted("p1").empty());
}

TEST_F(NetworkAsksTest, AnApprovalEndsWithItsTime) {
  config_.escalation.grant_us = 1;
  begin();
  asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  settleAll();
  ASSERT_TRUE(vote(approver(), escalations().at(0).id));
  EXPECT_TRUE(asks_->granted("p1").empty());
}

TEST_F(NetworkAsksTest, AsksOnceForADestination) {
  begin();
  for (int i = 0; i < 3; i++)
    asks_->wanted(wanted("p1"), owner());
  waitForEscalations(1);
  asks_->wanted(wanted("p2"), owner("ses_2"));  // another sandbox of the agent
  settleAll();
  ASSERT_EQ(escalations().size(), 1U);
  ASSERT_TRUE(vote(approver(), escalations().at(0).id));
  EXPECT_EQ(asks_->granted("p1").size(), 1U);
  EXPECT_EQ(asks_->granted("p2").size(), 1U) << "the answer is for both";
}

TEST_F(NetworkAsksTest, AsksForNoAddress) {
  begin();
  asks_->wanted(wanted("p1", "10.0.0.1"), owner());
  asks_->wanted(wanted("p1", "b.test", 0), owner());
  settleAll();
  EXPECT_TRUE(escalations().empty());
}

TEST_F(NetworkAsksTest, AsksForABoundedNumber) {
  config_.escalation.pending_per_agent = 1000;
  begin();
  for (size_t i = 0; i < 2 * NetworkAsks::kMostOfDoor; i++)
    asks_->wanted(wanted("p1", "h" + std::to_string(i) + ".test"), owner());
  waitForEscalations(NetworkAsks::kMostOfDoor);
  settleAll();
  EXPECT_EQ(escalations().size(), NetworkAsks::kMostOfDoor);
}

TEST_F(NetworkAsksTest, CountsARefusalAsAViolation) {
  begin();
  asks_->refused(owner(), refusedAttempt());
  runUntil([&] { return metrics_.network_violations == 1; });
  const auto violations =
      store_->agents().violations(store::Scope::allTenants(), {.of = {"acme", "agent"}});
  ASSERT_TRUE(violations);
  ASSERT_EQ(violations->size(), 1U);
  EXPECT_EQ(violations->at(0).operation, "network");
  EXPECT_EQ(violations->at(0).what, "evil.test:443");
  EXPECT_EQ(violations->at(0).reason, "No rule names it.");
  EXPECT_EQ(violations->at(0).subject, "ses_1");
  EXPECT_EQ(metrics_.denials["network"], 1);
}

TEST_F(NetworkAsksTest, APersonHasNoViolation) {
  begin();
  DoorOwner person = owner();
  person.principal.agent.clear();
  asks_->refused(person, refusedAttempt());
  settleAll();
  EXPECT_EQ(metrics_.network_violations, 0);
}

}  // namespace
}  // namespace cloister::orchestrator
