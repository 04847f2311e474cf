// SPDX-License-Identifier: Apache-2.0
// Runs refused by an agent's rules that a person may allow, and the effect of an approval.
#include <gmock/gmock.h>

#include "orchestrator/runs/blocking_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::HasSubstr;

TEST_F(BlockedAgentTest, GoesOnWithWhatItsAgentMayStillDo) {
  EXPECT_EQ(approvedAfter("echo *").status, Status::kCompleted);
}

TEST_F(BlockedAgentTest, AnApprovalDoesNotReachBeyondItsAgent) {
  const model::Execution done = approvedAfter("ls *");
  EXPECT_EQ(done.status, Status::kDenied);
  ASSERT_TRUE(done.error);
  EXPECT_EQ(done.error->details.at("level"), "only");
  EXPECT_TRUE(fake_->provisioned().empty());
  const auto violations =
      store_->agents().violations(store::Scope::allTenants(), {.of = {"acme", "agent"}});
  ASSERT_EQ(violations->size(), 1U);
  EXPECT_EQ(violations->front().subject, done.id);
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(BlockedAgentTest, NorBeyondTheMemoryItMayHave) {
  const model::Execution done = approvedAfter("echo *", 1);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_TRUE(fake_->provisioned().empty());
}

// An agent whose level refuses actions that a person may allow.
class AskingTest : public BlockedAgentTest {
 protected:
  void begin() {
    policy_.set(
        *policy::parsePolicy("version: 2\n"
                             "rules:\n"
                             "  - {name: all, why: a test, effect: allow}\n",
                             "test", model::defaultBounds().max));
    mayRun("echo *");
    start();
  }
  size_t violations() {
    return store_->agents()
        .violations(store::Scope::allTenants(), {.of = {"acme", "agent"}})
        ->size();
  }
};

TEST_F(AskingTest, GoesOnWithWhatWasApprovedForItAlone) {
  begin();
  const model::Execution held = blocked({"ls", "-l"});
  EXPECT_EQ(held.error->details.at("level"), "only");
  const Escalation asked = escalation(idIn(held));
  EXPECT_EQ(asked.lifts, (std::vector<model::WantedOperation>{{"command_execution", "ls -l"}}));
  EXPECT_EQ(violations(), 1U);
  ASSERT_TRUE(vote(approver(), asked.id));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
  EXPECT_EQ(escalation(asked.id).status, EscalationStatus::kUsed);
  EXPECT_NE(idIn(blocked({"ls", "-l"})), asked.id) << "it was for once";
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(AskingTest, ThoseThatAreAlikeWaitForOneEscalation) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  const model::Execution other = blocked({"ls", "-l"});
  EXPECT_EQ(idIn(one), idIn(two));
  EXPECT_NE(idIn(one), idIn(other));
  EXPECT_EQ(violations(), 3U);
  EXPECT_EQ(escalation(idIn(one)).waiting, 2U);
  ASSERT_TRUE(vote(approver(), idIn(one)));
  EXPECT_EQ(ended(one.id).status, Status::kCompleted);
  EXPECT_EQ(ended(two.id).status, Status::kCompleted);
  for (const model::Execution& each : {one, two}) {
    const auto recorded = store_->recorded(store::Scope::allTenants(), each.id);
    ASSERT_TRUE(recorded) << recorded.error().message;
    ASSERT_TRUE(recorded->approval);
    EXPECT_EQ(recorded->approval->id, idIn(one)) << "its receipt names what let it run";
  }
  EXPECT_EQ(escalation(idIn(one)).waiting, 0U);
  EXPECT_EQ(stored(other.id).status, Status::kBlocked);
}

TEST_F(AskingTest, OneOfThemThatIsCancelledTakesNothingFromTheOthers) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  ASSERT_TRUE(await(service_->cancel(principal(), one.id)));
  EXPECT_EQ(ended(one.id).status, Status::kCancelled);
  EXPECT_EQ(escalation(idIn(two)).status, EscalationStatus::kPending);
  ASSERT_TRUE(vote(approver(), idIn(two)));
  EXPECT_EQ(ended(two.id).status, Status::kCompleted);
}

TEST_F(AskingTest, ThoseThatOutliveTheFirstAllGoOn) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  const model::Execution three = blocked({"ls"});
  ASSERT_TRUE(await(service_->cancel(principal(), one.id)));
  ASSERT_TRUE(vote(approver(), idIn(two)));
  EXPECT_EQ(ended(two.id).status, Status::kCompleted);
  EXPECT_EQ(ended(three.id).status, Status::kCompleted);
  EXPECT_EQ(escalation(idIn(two)).status, EscalationStatus::kUsed);
}

TEST_F(AskingTest, OneThatNobodyWaitsForIsOver) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  for (const model::Execution& each : {one, two})
    ASSERT_TRUE(await(service_->cancel(principal(), each.id)));
  runUntil([&] { return escalation(idIn(one)).status == EscalationStatus::kExpired; });
}

TEST_F(AskingTest, WhatWaitsTakesNothingOfWhatItsAgentMayHave) {
  begin();
  mayRun("echo *", 300);
  blocked({"ls", "1"});
  blocked({"ls", "2"});
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(AskingTest, ACommandOfPagesIsNotAskedFor) {
  begin();
  const auto denied =
      await(service_->run(principal(), request({"ls", std::string(9000, 'x')}), ""));
  EXPECT_EQ(denied->status, Status::kDenied);
}

TEST_F(AskingTest, ARestartLosesNone) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  restart();
  ASSERT_TRUE(vote(approver(), idIn(two)));
  EXPECT_EQ(ended(one.id).status, Status::kCompleted);
  EXPECT_EQ(ended(two.id).status, Status::kCompleted);
}

TEST_F(AskingTest, ADenialEndsAllOfThem) {
  begin();
  const model::Execution one = blocked({"ls"});
  const model::Execution two = blocked({"ls"});
  ASSERT_TRUE(vote(approver(), idIn(one), false));
  for (const model::Execution& each : {one, two}) {
    const model::Execution done = ended(each.id);
    EXPECT_EQ(done.status, Status::kDenied);
    EXPECT_EQ(done.error->details.at("reason"), "approval_denied");
    EXPECT_TRUE(store_->recorded(store::Scope::allTenants(), each.id)->approval);
  }
}

TEST_F(AskingTest, OnlySoManyWait) {
  config_.escalation.pending_per_agent = 2;
  begin();
  blocked({"ls", "1"});
  const model::Execution second = blocked({"ls", "2"});
  const auto third = await(service_->run(principal(), request({"ls", "3"}), ""));
  EXPECT_EQ(third->status, Status::kDenied);
  EXPECT_THAT(third->error->message, HasSubstr("2 requests of this agent wait already"));
  EXPECT_EQ(violations(), 3U);
  EXPECT_EQ(idIn(blocked({"ls", "2"})), idIn(second)) << "it is one that waits";
}

TEST_F(AskingTest, OnlySoManyWaitHoweverTheyAreAskedFor) {
  config_.escalation.pending_per_agent = 2;
  begin();
  const auto byHand = [&](const std::string& path, const std::string& agent = "agent") {
    model::Principal by = principal();
    by.agent = agent;
    return await(escalations_->request(
        by, {.operation = "file_write", .subject = path, .reason = "work", .run = std::nullopt}));
  };
  const auto first = byHand("a");
  ASSERT_TRUE(first) << first.error().message;
  blocked({"ls", "1"});
  const auto third = byHand("b");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kQuota);
  EXPECT_THAT(third.error().message, HasSubstr("2 requests of this agent wait already"));
  EXPECT_THAT(third.error().message, HasSubstr("have one of them decided"));
  EXPECT_TRUE(byHand("b", "another")) << "of another agent";
  const auto denied = await(service_->run(principal(), request({"ls", "2"}), ""));
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_THAT(denied->error->message, HasSubstr("have one of them decided"));
  EXPECT_THAT(denied->error->message, testing::Not(HasSubstr("ask for an approval")))
      << "that meets the same bound";
  EXPECT_EQ(denied->error->details.at("escalation_available"), false);
  ASSERT_TRUE(vote(approver(), first->id, false));
  EXPECT_TRUE(byHand("b"));
}

TEST_F(AskingTest, ThoseAskedForAtOnceAreBoundedToo) {
  config_.escalation.pending_per_agent = 2;
  begin();
  std::vector<std::optional<bool>> made(4);
  for (auto& each : made) {
    async::spawn(
        io_->get_executor(),
        [](EscalationService& escalations, model::Principal by,
           std::optional<bool>& done) -> Task<void> {
          const auto asked = co_await escalations.request(
              by,
              {.operation = "network", .subject = "a.test", .reason = "work", .run = std::nullopt});
          done = asked.has_value();
        }(*escalations_, principal(), each));
  }
  runUntil(
      [&] { return std::ranges::all_of(made, [](const auto& each) { return each.has_value(); }); });
  EXPECT_EQ(std::ranges::count(made, std::optional(true)), 2);
}

TEST_F(AskingTest, WhatPolicyDeniesIsNotAskedFor) {
  begin();
  policy_.set(
      *policy::parsePolicy("version: 2\n"
                           "rules:\n"
                           "  - {name: none, why: a test, effect: deny}\n",
                           "test", model::defaultBounds().max));
  const auto denied = await(service_->run(principal(), request({"ls"}), ""));
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_EQ(denied->error->type, "PERMISSION_DENIED");
  EXPECT_EQ(violations(), 1U);
}

}  // namespace
}  // namespace cloister::orchestrator
