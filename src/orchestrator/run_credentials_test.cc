// SPDX-License-Identifier: Apache-2.0
// What ends with the credential that began it, and votes that end with theirs.
#include <gmock/gmock.h>

#include "orchestrator/blocking_fixture.h"
#include "orchestrator/port_links.h"
#include "orchestrator/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;
using testing::HasSubstr;

class CredentialTest : public SessionsTest {
 protected:
  // `ends`: `auth.on_revoke: end`. The credential of principal() is a key of the ledger.
  void begin(bool ends) {
    config_.end_on_revoke = ends;
    open();
    putKey(0, "key_1");
  }
  void expectEnded(const std::string& id) {
    const model::Execution done = ServiceTest::ended(id);
    EXPECT_EQ(done.status, Status::kFailed);
    ASSERT_TRUE(done.error);
    EXPECT_EQ(done.error->type, "PERMISSION_DENIED");
    EXPECT_EQ(done.error->details.at("reason"), "credential_revoked");
    EXPECT_EQ(done.error->details.at("credential"), "key_1");
    EXPECT_THAT(done.error->message, HasSubstr("key_1"));
  }
};

TEST_F(CredentialTest, ByDefaultProgramsAndSessionsFinish) {
  begin(false);
  const std::string session = created();
  const std::string inside = running(session, {"hold"});
  const std::string alone = accepted({"hold"});
  revokeKey("key_1");
  settle();
  EXPECT_EQ(shown(session).status, SessionStatus::kRunning);
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(inside).status, Status::kCompleted);
  EXPECT_EQ(ServiceTest::ended(alone).status, Status::kCompleted);
}

TEST_F(CredentialTest, ATerminalEndsAllTheSame) {
  begin(false);
  const std::string session = created();
  model::ExecRequest terminal = program({"hold"});
  terminal.terminal = model::TerminalSize{};
  const auto execution = await(sessions_->exec(principal(), session, terminal, ""));
  ASSERT_TRUE(execution) << execution.error().message;
  revokeKey("key_1");
  expectEnded(execution->id);
  EXPECT_EQ(shown(session).status, SessionStatus::kRunning);
}

// Neither a token nor a certificate is in the ledger.
TEST_F(CredentialTest, ATerminalEndsAtTheEndOfAToken) {
  begin(true);
  model::Principal bearer = principal();
  bearer.key_id = "jwt_1";
  bearer.ends_at = base::wallMicros() + 3'600'000'000;
  const std::string session = created();
  model::ExecRequest terminal = program({"hold"});
  terminal.terminal = model::TerminalSize{};
  const auto later = await(sessions_->exec(bearer, session, terminal, ""));
  bearer.ends_at = base::wallMicros();
  const auto now = await(sessions_->exec(bearer, session, terminal, ""));
  const auto plain = await(sessions_->exec(bearer, session, program({"hold"}), ""));
  ASSERT_TRUE(later && now && plain);
  service_->lookAtCredentials();
  EXPECT_EQ(ServiceTest::ended(now->id).error->details.at("credential"), "jwt_1");
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(later->id).status, Status::kCompleted);
  EXPECT_EQ(ServiceTest::ended(plain->id).status, Status::kCompleted);
}

TEST_F(CredentialTest, WhereItIsWantedAllEndsAndSaysByWhat) {
  begin(true);
  offer_.max_sandboxes = 2;
  connect();
  const std::string session = created();
  const std::string inside = running(session, {"hold"});
  const std::string alone = accepted({"hold"});
  const std::string queued = accepted({"hold"});
  ASSERT_EQ(service_->get(principal(), queued)->status, Status::kQueued);
  revokeKey("key_1");
  expectEnded(alone);
  expectEnded(queued);
  expectEnded(inside);
  const model::Session done = endedSession(session);
  EXPECT_EQ(reason(done), "PERMISSION_DENIED");
  EXPECT_EQ(done.end->details.at("credential"), "key_1");
  EXPECT_THAT(done.end->message, HasSubstr("key_1"));
}

// Nobody tells the service of an expiry.
TEST_F(CredentialTest, ItsOwnLookFindsThem) {
  config_.rules_every = Millis(5);
  begin(true);
  const std::string alone = accepted({"hold"});
  EXPECT_TRUE(written([&](store::Done<void> done) {
    store_->revokeKey(store::Scope::allTenants(), "key_1", keyEvent("key.revoked", "key_1"),
                      std::move(done));
  }));
  expectEnded(alone);
}

TEST_F(CredentialTest, ARotationEndsNothing) {
  begin(true);
  const std::string session = created();
  const std::string alone = accepted({"hold"});
  replaceKey("key_1");
  settle();
  EXPECT_EQ(shown(session).status, SessionStatus::kRunning);
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(alone).status, Status::kCompleted);
}

TEST_F(CredentialTest, APortLinkEndsWithTheKeyThatMadeIt) {
  begin(false);
  const PortLinks links(*keyring_, *store_);
  const int64_t soon = base::wallMicros() / 1'000'000 + 100;
  const std::string token = links.sign("acme", "ses_1", 80, soon, "key_1").value();
  const auto link = links.verify("acme", "ses_1", 80, token);
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_EQ(link->made_with, "key_1");
  EXPECT_EQ(link->expires_at, soon);
  std::string forged = token;
  forged.replace(forged.find("key_1"), 5, "key_2");
  EXPECT_EQ(links.verify("acme", "ses_1", 80, forged).error().code, Code::kNotFound);
  EXPECT_EQ(links.verify("acme", "ses_1", 81, token).error().code, Code::kNotFound);
  for (const char* bad : {"", "-", "--", "1-key_1", "x-key_1-00"})
    EXPECT_EQ(links.verify("acme", "ses_1", 80, bad).error().code, Code::kNotFound) << bad;
  replaceKey("key_1");
  EXPECT_TRUE(links.verify("acme", "ses_1", 80, token));
  revokeKey("key_1");
  EXPECT_EQ(links.verify("acme", "ses_1", 80, token).error().code, Code::kUnauthorized);
}

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
