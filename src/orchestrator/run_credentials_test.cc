// SPDX-License-Identifier: Apache-2.0
// Votes that end with the credential that they were given with.
#include <gmock/gmock.h>

#include "orchestrator/blocking_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;
using testing::HasSubstr;

class VotesTest : public BlockingTest {
 protected:
  void begin() {
    start();
    for (const char* who : {"key_1", "key_of_boss", "key_of_chief", "key_of_deputy"})
      putKey(0, who);
  }
  Status statusOf(const model::Execution& run) {
    return service_->get(principal(), run.id)->status;
  }
};

TEST_F(VotesTest, AQuorumTakesVotesOfCredentialsThatStand) {
  wants("{roles: [approver], quorum: 2}");
  begin();
  const model::Execution held = blocked();
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  revokeKey("key_of_boss");
  const auto second = vote(approver("chief"), idIn(held));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->status, EscalationStatus::kPending);
  EXPECT_EQ(second->approvals(), 1U);
  EXPECT_EQ(statusOf(held), Status::kBlocked);
  ASSERT_TRUE(vote(approver("deputy"), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

// Approved while there was no node, and released when there is one.
TEST_F(VotesTest, AreJudgedAgainAtTheRelease) {
  begin();
  const model::Execution held = blocked();
  service_->setNode({});
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  revokeKey("key_of_boss");
  connect();
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kPending; });
  EXPECT_EQ(statusOf(held), Status::kBlocked);
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(auditOf(idIn(held)).back(), "escalation.votes_revoked");
  ASSERT_TRUE(vote(approver("chief"), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(VotesTest, ACredentialThatWasRotatedHasVoted) {
  begin();
  const model::Execution held = blocked();
  service_->setNode({});
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  replaceKey("key_of_boss");
  connect();
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(VotesTest, OfARevokedCredentialApproveNothingThatIsNamed) {
  begin();
  const auto asked = askFor(request({"echo", "hello"}));
  ASSERT_TRUE(asked);
  ASSERT_TRUE(vote(approver("boss"), asked->id));
  revokeKey("key_of_boss");
  const auto refused = runWith(asked->id, request({"echo", "hello"}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, Status::kDenied);
  EXPECT_EQ(refused->error->details.at("reason"), "approval_revoked");
  ASSERT_TRUE(vote(approver("chief"), asked->id)) << "it takes another vote";
  const auto good = runWith(asked->id, request({"echo", "hello"}));
  ASSERT_TRUE(good);
  EXPECT_EQ(ended(good->id).status, Status::kCompleted);
}

TEST_F(VotesTest, ARunOfARevokedRequesterDoesNotStart) {
  begin();
  const model::Execution held = blocked();
  revokeKey("key_1");
  EXPECT_EQ(statusOf(held), Status::kBlocked);
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "requester_revoked");
  EXPECT_THAT(done.error->message, HasSubstr("key_1, was revoked"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(VotesTest, ARotatedRequestersRunStarts) {
  begin();
  const model::Execution held = blocked();
  replaceKey("key_1");
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(VotesTest, ASessionWaitsForAnotherVote) {
  begin();
  model::SessionRequest wanted;
  wanted.ttl = Millis(3'600'000);
  wanted.idle_ttl = Millis(600'000);
  const auto held = await(sessions_->create(principal(), wanted, ""));
  ASSERT_TRUE(held) << held.error().message;
  const std::string id(held->error->details.at("escalation_id").get_string());
  service_->setNode({});
  ASSERT_TRUE(vote(approver("boss"), id));
  revokeKey("key_of_boss");
  connect();
  runUntil([&] { return escalation(id).status == EscalationStatus::kPending; });
  EXPECT_EQ(sessions_->get(principal(), held->id)->status, SessionStatus::kBlocked);
  ASSERT_TRUE(vote(approver("chief"), id));
  runUntil(
      [&] { return sessions_->get(principal(), held->id)->status == SessionStatus::kRunning; });
}

}  // namespace
}  // namespace cloister::orchestrator
