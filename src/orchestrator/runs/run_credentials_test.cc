// SPDX-License-Identifier: Apache-2.0
// Work that ends with its credential, and votes that end with their credential.
#include <gmock/gmock.h>

#include "orchestrator/runs/blocking_fixture.h"
#include "orchestrator/sessions/port_links.h"
#include "orchestrator/sessions/session_fixture.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/keys.h"
#include "store/store_testing.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;
using testing::HasSubstr;
using testing::Not;

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
  const model::Execution over = ServiceTest::ended(now->id);
  EXPECT_EQ(over.error->details.at("credential"), "jwt_1");
  EXPECT_THAT(over.error->message, Not(HasSubstr("rotated")));
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
  EXPECT_THAT(ServiceTest::ended(alone).error->message, HasSubstr("may have run in part"));
  EXPECT_THAT(ServiceTest::ended(queued).error->message, Not(HasSubstr("in part")));
  const model::Session done = endedSession(session);
  EXPECT_EQ(reason(done), "PERMISSION_DENIED");
  EXPECT_EQ(done.end->details.at("credential"), "key_1");
  EXPECT_THAT(done.end->message, HasSubstr("key_1, or a key that it was rotated to, was revoked"))
      << "which of them it was is not known";
}

// Nobody notifies the service of an expiry.
TEST_F(CredentialTest, ItsOwnLookFindsThem) {
  config_.rules_every = Millis(5);
  begin(true);
  const std::string alone = accepted({"hold"});
  EXPECT_TRUE(written([&](store::Done<void> done) {
    store_->write(store::writing(store::revokeKey, store::Scope::allTenants(), "key_1",
                                 keyEvent("key.revoked", "key_1")),
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
  const auto of_before = links.verify("acme", "ses_1", 80, "1767225600-00ab");
  EXPECT_EQ(of_before.error().code, Code::kUnauthorized);
  EXPECT_THAT(of_before.error().message, HasSubstr("of an earlier version"));
  replaceKey("key_1");
  EXPECT_TRUE(links.verify("acme", "ses_1", 80, token));
  revokeKey("key_1");
  EXPECT_EQ(links.verify("acme", "ses_1", 80, token).error().code, Code::kUnauthorized);
}

class VotesTest : public BlockingTest {
 protected:
  using BlockingTest::idIn;
  void begin() {
    start();
    for (const char* who : {"key_1", "key_of_boss", "key_of_chief", "key_of_deputy"})
      putKey(0, who);
  }
  // The ledger's state.
  Escalation stored(const std::string& id) {
    return *store_->escalations().get(store::Scope::allTenants(), id);
  }
  Status statusOf(const model::Execution& run) {
    return service_->get(principal(), run.id)->status;
  }
  model::Session session() {
    model::SessionRequest wanted;
    wanted.ttl = Millis(3'600'000);
    wanted.idle_ttl = Millis(600'000);
    const auto made = await(sessions_->create(principal(), wanted, ""));
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : model::Session{};
  }
  static std::string idIn(const model::Session& session) {
    return std::string(session.error->details.at("escalation_id").get_string());
  }
  void runTo(const model::Session& session, SessionStatus status) {
    runUntil([&] { return sessions_->get(principal(), session.id)->status == status; });
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
  std::vector<base::json::object> votes;
  for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000)) {
    if (entry.event.action == "escalation.approved") votes.push_back(entry.event.details);
  }
  ASSERT_EQ(votes.size(), 3U);
  EXPECT_FALSE(votes[0].contains("revoked_credentials"));
  EXPECT_EQ(votes[1].at("revoked_credentials"),
            base::json::value(base::json::array{"key_of_boss"}));
  EXPECT_FALSE(votes[2].contains("revoked_credentials")) << "once";
}

// Readers see only valid votes, even before the next vote.
TEST_F(VotesTest, OfARevokedCredentialAreShownAsThat) {
  wants("{roles: [approver], quorum: 2}");
  begin();
  const std::string id = idIn(blocked());
  ASSERT_TRUE(vote(approver("boss"), id));
  EXPECT_EQ(escalation(id).approvals(), 1U);
  revokeKey("key_of_boss");
  store::EscalationQuery all;
  all.limit = 10;
  const auto listed = escalations_->list(approver("chief"), all);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  for (const Escalation& each : {escalation(id), listed->front()}) {
    EXPECT_EQ(each.approvals(), 0U);
    ASSERT_EQ(each.decisions.size(), 1U);
    EXPECT_TRUE(each.decisions[0].revoked);
  }
  EXPECT_EQ(auditOf(id).back(), "escalation.approved") << "looking changes nothing";
}

TEST_F(VotesTest, AnApprovalThatLacksOneByNowIsShownAsPending) {
  begin();
  const auto asked = askFor(request({"echo", "hello"}));
  ASSERT_TRUE(asked);
  ASSERT_TRUE(vote(approver("boss"), asked->id));
  EXPECT_EQ(escalation(asked->id).status, EscalationStatus::kApproved);
  revokeKey("key_of_boss");
  EXPECT_EQ(escalation(asked->id).status, EscalationStatus::kPending);
  EXPECT_EQ(stored(asked->id).status, EscalationStatus::kApproved);
}

TEST_F(VotesTest, ForATemporaryPermissionAreJudgedNoMore) {
  begin();
  const auto asked = await(escalations_->request(
      principal(),
      {.operation = "file_read", .subject = "notes", .reason = "to read", .run = std::nullopt}));
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_TRUE(vote(approver("boss"), asked->id));
  revokeKey("key_of_boss");
  EXPECT_EQ(escalation(asked->id).status, EscalationStatus::kApproved);
}

// The person has voted by a revoked credential: the new vote must still meet all rules.
TEST_F(VotesTest, AVoteInPlaceOfAStruckOneMeetsTheRulesOfNow) {
  begin();
  store::NewEscalation asked;  // from a service with weaker rules
  asked.escalation.operation = "file_write";
  asked.escalation.subject = "*.txt";
  asked.escalation.requester = principal();
  asked.escalation.roles = {"approver"};
  asked.escalation.quorum = 2;
  asked.escalation.grant_us = 60'000'000;
  asked.escalation.expires_at = base::wallMicros() + 3'600'000'000;
  asked.event = {
      .action = "escalation.requested", .subject = "", .principal = principal(), .details = {}};
  const std::string id = store::testing::commit(*store_, store::addEscalation, asked)->id;
  const policy::Ballot ballot{.by = approver("boss"),
                              .person = personOf(*store_, approver("boss")).value(),
                              .approve = true,
                              .reason = "why",
                              .now = base::wallMicros()};
  const store::EscalationChange first{
      .tenant = "acme",
      .id = id,
      .apply = [ballot](Escalation& e) -> Result<model::AuditEvent> {
        TRY(policy::vote(e, ballot));
        return votedEvent(e, ballot.by, true, ballot.reason);
      },
      .channels = {},
      .notification = ""};
  ASSERT_TRUE(store::testing::commit(*store_, store::changeEscalation, first));
  revokeKey("key_of_boss");
  putKey(0, "key_next");
  model::Principal again = approver("boss");
  again.key_id = "key_next";
  const auto voted = vote(again, id);
  ASSERT_FALSE(voted);
  EXPECT_THAT(voted.error().message, HasSubstr("deny it, so that it is asked for anew"));
}

// With `auth.on_revoke: end`, work waiting for people ends, too: a run, a session, and a program of
// a session.
TEST_F(VotesTest, WhatWaitsForThemEndsWithItsRequester) {
  config_.end_on_revoke = true;
  begin();
  const model::Session open = session();
  ASSERT_TRUE(vote(approver("boss"), idIn(open)));
  runTo(open, SessionStatus::kRunning);
  model::ExecRequest wanted;
  wanted.run = request({"echo", "hello"});
  const auto program = await(sessions_->exec(principal(), open.id, wanted, ""));
  ASSERT_TRUE(program) << program.error().message;
  const model::Execution run = blocked();
  const model::Session waiting = session();
  ASSERT_EQ(program->status, Status::kBlocked);
  ASSERT_EQ(waiting.status, SessionStatus::kBlocked);
  revokeKey("key_1");
  for (const std::string& id : {program->id, run.id}) {
    const model::Execution done = ended(id);
    EXPECT_EQ(done.error->details.at("reason"), "credential_revoked");
    EXPECT_EQ(done.error->details.at("credential"), "key_1");
    EXPECT_THAT(done.error->message, Not(HasSubstr("in part")));
  }
  for (const model::Session& each : {open, waiting}) {
    runTo(each, SessionStatus::kEnded);
    const model::Session done = *sessions_->get(principal(), each.id);
    EXPECT_EQ(done.end->details.at("credential"), "key_1");
  }
  runUntil([&] { return auditOf(idIn(waiting)).back() == "escalation.withdrawn"; });
}

// Approved without a node, and released with a node.
TEST_F(VotesTest, AreJudgedAgainAtTheRelease) {
  begin();
  const model::Execution held = blocked();
  control_->nodes.set({});
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  revokeKey("key_of_boss");
  connect();
  runUntil([&] { return auditOf(idIn(held)).back() == "escalation.votes_revoked"; });
  EXPECT_EQ(stored(idIn(held)).status, EscalationStatus::kPending);
  EXPECT_EQ(statusOf(held), Status::kBlocked);
  EXPECT_TRUE(fake_->provisioned().empty());
  ASSERT_TRUE(vote(approver("chief"), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(VotesTest, ACredentialThatWasRotatedHasVoted) {
  begin();
  const model::Execution held = blocked();
  control_->nodes.set({});
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
  EXPECT_THAT(refused->error->message, HasSubstr("it waits for another vote"));
  EXPECT_EQ(stored(asked->id).status, EscalationStatus::kPending) << "it does wait";
  EXPECT_EQ(auditOf(asked->id).back(), "escalation.votes_revoked");
  ASSERT_TRUE(vote(approver("chief"), asked->id)) << "it takes another vote";
  const auto good = runWith(asked->id, request({"echo", "hello"}));
  ASSERT_TRUE(good);
  EXPECT_EQ(ended(good->id).status, Status::kCompleted);
}

TEST_F(VotesTest, ARunOfARevokedRequesterIsDeniedAtTheVote) {
  begin();
  const model::Execution held = blocked();
  revokeKey("key_1");
  EXPECT_EQ(statusOf(held), Status::kBlocked);
  model::Principal self = approver("user");
  ASSERT_FALSE(vote(self, idIn(held))) << "who may not vote ends nothing";
  EXPECT_EQ(stored(idIn(held)).status, EscalationStatus::kPending);
  const auto voted = vote(approver("boss"), idIn(held));
  ASSERT_FALSE(voted);
  EXPECT_EQ(voted.error().code, Code::kConflict);
  EXPECT_THAT(voted.error().message, HasSubstr("key_1, was revoked"));
  EXPECT_THAT(voted.error().message, HasSubstr("ask anew with another credential"));
  EXPECT_EQ(voted.error().field, "");
  EXPECT_EQ(stored(idIn(held)).status, EscalationStatus::kDenied);
  EXPECT_THAT(stored(idIn(held)).decisions.back().reason, HasSubstr("key_1, was revoked"));
  EXPECT_EQ(auditOf(idIn(held)).back(), "escalation.denied");
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "requester_revoked");
  EXPECT_THAT(done.error->message, HasSubstr("key_1, was revoked"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(VotesTest, ASessionOfARevokedRequesterIsDeniedAtTheVote) {
  begin();
  const model::Session held = session();
  revokeKey("key_1");
  const auto voted = vote(approver("boss"), idIn(held));
  ASSERT_FALSE(voted);
  EXPECT_EQ(voted.error().code, Code::kConflict);
  runTo(held, SessionStatus::kEnded);
  const model::Session done = *sessions_->get(principal(), held.id);
  EXPECT_EQ(done.end->details.at("reason"), "requester_revoked");
  EXPECT_EQ(stored(idIn(held)).status, EscalationStatus::kDenied);
}

// Another credential of the agent may use a manual approval.
TEST_F(VotesTest, OnWhatNothingWaitsForCountAfterItsRequester) {
  begin();
  const auto asked = askFor(request({"echo", "hello"}));
  ASSERT_TRUE(asked);
  revokeKey("key_1");
  EXPECT_TRUE(vote(approver("boss"), asked->id));
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
  const model::Session held = session();
  const std::string id = idIn(held);
  control_->nodes.set({});
  ASSERT_TRUE(vote(approver("boss"), id));
  revokeKey("key_of_boss");
  connect();
  runUntil([&] { return auditOf(id).back() == "escalation.votes_revoked"; });
  EXPECT_EQ(sessions_->get(principal(), held.id)->status, SessionStatus::kBlocked);
  ASSERT_TRUE(vote(approver("chief"), id));
  runTo(held, SessionStatus::kRunning);
}

}  // namespace
}  // namespace cloister::orchestrator
