// SPDX-License-Identifier: Apache-2.0
// Sessions that wait for an approval, and programs of a session that wait for an approval.
#include <gmock/gmock.h>

#include "orchestrator/runs/blocking_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// For tests of sessions, whatever wants the approval.
template <class Base>
class WithSessions : public Base {
 protected:
  using Base::await;
  using Base::principal;

  Result<model::Session> create(const std::string& task = "", const std::string& env = "") {
    model::SessionRequest wanted;
    wanted.ttl = Millis(3'600'000);
    wanted.idle_ttl = Millis(600'000);
    if (!task.empty()) wanted.settings.metadata["task"] = task;
    if (!env.empty()) wanted.settings.env["A"] = env;
    return await(this->sessions_->create(principal(), wanted, ""));
  }
  model::Session shown(const std::string& id) {
    const auto session = this->sessions_->get(principal(), id);
    EXPECT_TRUE(session) << session.error().message;
    return session ? *session : model::Session{};
  }
  model::Session in(const std::string& id, SessionStatus status) {
    this->runUntil([&] { return shown(id).status == status; });
    return *this->store_->session(store::Scope::allTenants(), id);
  }
  static std::string idIn(const model::Session& session) {
    return session.error ? std::string(session.error->details.at("escalation_id").get_string())
                         : "";
  }
  Result<model::Execution> exec(const std::string& session, std::vector<std::string> argv) {
    model::ExecRequest made;
    made.run = this->request(std::move(argv));
    made.run.artifacts = {};
    return await(this->sessions_->exec(principal(), session, made, ""));
  }
};

class SessionAsksTest : public WithSessions<BlockingTest> {
 protected:
  model::Session blocked(const std::string& task = "", const std::string& env = "") {
    const auto made = create(task, env);
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->status, SessionStatus::kBlocked);
    return made.value_or(model::Session{});
  }
};

TEST_F(SessionAsksTest, IsMadeOnceItIsApproved) {
  start();
  const model::Session held = blocked();
  const std::string id = idIn(held);
  EXPECT_EQ(held.error->type, "APPROVAL_REQUIRED");
  EXPECT_THAT(held.error->message, HasSubstr(id));
  EXPECT_EQ(held.expires_at, 0);
  EXPECT_EQ(escalation(id).operation, "session");
  EXPECT_EQ(escalation(id).session_id, held.id);
  EXPECT_THAT(escalation(id).display, HasSubstr("make a session"));
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(metrics_.running_sessions + metrics_.creating_sessions, 0U);
  const auto refused = exec(held.id, {"echo", "x"});
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr(id));
  ASSERT_TRUE(vote(approver(), id));
  const model::Session made = in(held.id, SessionStatus::kRunning);
  EXPECT_FALSE(made.error);
  EXPECT_EQ(made.provenance.approval, id);
  EXPECT_GT(made.expires_at, 0);
  EXPECT_EQ(escalation(id).status, EscalationStatus::kUsed);
  EXPECT_THAT(auditOf(held.id),
              ElementsAre("session.created", "session.resumed", "session.started"));
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

TEST_F(SessionAsksTest, ADenialEndsIt) {
  start();
  const model::Session held = blocked();
  ASSERT_TRUE(vote(approver(), idIn(held), false));
  const model::Session done = in(held.id, SessionStatus::kEnded);
  EXPECT_EQ(done.end->type, "APPROVAL_REQUIRED");
  EXPECT_EQ(done.end->details.at("reason"), "approval_denied");
  EXPECT_EQ(std::string(done.end->details.at("escalation_id").get_string()), idIn(held));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(SessionAsksTest, NobodyInTimeEndsIt) {
  wants("{roles: [approver], ttl_seconds: 1}");
  start();
  const model::Session done = in(blocked().id, SessionStatus::kEnded);
  EXPECT_EQ(done.end->details.at("reason"), "approval_expired");
}

TEST_F(SessionAsksTest, EndingItWithdrawsTheRequest) {
  start();
  const model::Session held = blocked();
  ASSERT_TRUE(await(sessions_->end(principal(), held.id)));
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
  EXPECT_THAT(escalation(idIn(held)).ended_reason, StartsWith("the session ended"));
}

TEST_F(SessionAsksTest, ThoseThatAreAlikeWaitForOneEscalation) {
  config_.escalation.pending_per_agent = 2;
  start();
  const model::Session one = blocked("a");
  const model::Session two = blocked("a");
  EXPECT_EQ(idIn(one), idIn(two));
  EXPECT_EQ(escalation(idIn(one)).waiting, 2U);
  const model::Session other = blocked("b");
  EXPECT_NE(idIn(other), idIn(one)) << "its metadata is another";
  const auto more = create("", "2");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kDenied);
  EXPECT_THAT(more.error().message, HasSubstr("2 requests of this agent wait already"));
  ASSERT_TRUE(await(sessions_->end(principal(), one.id)));
  ASSERT_TRUE(vote(approver(), idIn(two)));
  in(two.id, SessionStatus::kRunning);
  EXPECT_EQ(shown(other.id).status, SessionStatus::kBlocked);
}

TEST_F(SessionAsksTest, ARestartLosesNone) {
  start();
  const model::Session one = blocked("a", "1");
  const model::Session two = blocked("a", "1");
  restart();
  EXPECT_EQ(shown(one.id).status, SessionStatus::kBlocked);
  ASSERT_TRUE(vote(approver(), idIn(one)));
  EXPECT_EQ(in(one.id, SessionStatus::kRunning).env.at("A"), "1");
  in(two.id, SessionStatus::kRunning);
}

TEST_F(SessionAsksTest, WhatWasApprovedBeforeACrashIsMadeAfterIt) {
  start(false);
  EXPECT_EQ(create().error().code, Code::kUnavailable) << "nobody knows the image";
  connect();
  const model::Session held = blocked();
  control_->nodes.set({});
  EXPECT_EQ(shown(held.id).status, SessionStatus::kBlocked) << "it has no sandbox to lose";
  ASSERT_TRUE(vote(approver(), idIn(held)));
  restart();
  in(held.id, SessionStatus::kRunning);
}

TEST_F(SessionAsksTest, WhatIsStoredMustBeWhatWasAccepted) {
  start();
  const model::Session held = blocked("", "good");
  shut();
  inLedger("UPDATE sessions SET record=replace(record, 'good', 'evil')");
  start();
  const model::Session done = in(held.id, SessionStatus::kEnded);
  EXPECT_THAT(done.end->message, HasSubstr("is not the one of audit entry"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(SessionAsksTest, WhatPolicyDeniesByThenIsNotMade) {
  start();
  const model::Session held = blocked();
  policy_.set(
      *policy::parsePolicy("version: 2\n"
                           "rules:\n"
                           "  - {name: none, why: a test, effect: deny}\n",
                           "test", model::defaultBounds().max));
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Session done = in(held.id, SessionStatus::kEnded);
  EXPECT_EQ(done.end->type, "APPROVAL_REQUIRED");
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(fake_->live(), 0U);
}

// Programs in a session whose agent may run only `echo` and `hold`.
class ExecAsksTest : public WithSessions<BlockedAgentTest> {
 protected:
  std::string begin(const std::string& pattern = "echo *") {
    policy_.set(
        *policy::parsePolicy("version: 2\n"
                             "rules:\n"
                             "  - {name: all, why: a test, effect: allow}\n",
                             "test", model::defaultBounds().max));
    mayRun(pattern);
    start();
    const auto made = create();
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->id : "";
  }
  model::Execution waits(const std::string& session, std::vector<std::string> argv) {
    const auto execution = exec(session, std::move(argv));
    EXPECT_TRUE(execution) << execution.error().message;
    EXPECT_EQ(execution->status, Status::kBlocked);
    return execution.value_or(model::Execution{});
  }
  void put(const std::string& session, const std::string& path, const std::string& content,
           const std::string& mode = "") {
    FileRequest request{.argv = {"write", path, mode}, .takes_input = true, .action = ""};
    const auto call = await(sessions_->files(principal(), session, request));
    ASSERT_TRUE(call) << call.error().message;
    ASSERT_TRUE(await((*call)->send(content)));
    ASSERT_TRUE(await((*call)->send("")));
    ASSERT_TRUE(await((*call)->finish()));
  }
  using BlockedAgentTest::idIn;
};

TEST_F(ExecAsksTest, GoesOnInASandboxThatLetsItAndTheSessionGoesBack) {
  const std::string session = begin();
  const model::Execution held = waits(session, {"ls", "-l"});
  EXPECT_EQ(escalation(idIn(held)).session_id, session);
  EXPECT_EQ(fake_->provisioned().size(), 1U);
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kCompleted) << (done.error ? done.error->message : "");
  EXPECT_EQ(done.session_id, session);
  EXPECT_EQ(escalation(idIn(held)).status, EscalationStatus::kUsed);
  EXPECT_THAT(auditOf(session), Contains("session.opened"));
  runUntil([&] { return fake_->live() == 1 && fake_->provisioned().size() == 3; });
  EXPECT_THAT(auditOf(session), Contains("session.rules_applied"));
  runUntil([&] { return exec(session, {"echo", "x"}).has_value(); });
  EXPECT_NE(idIn(waits(session, {"ls", "-l"})), idIn(held)) << "it was for once";
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(ExecAsksTest, WaitsForTheOtherProgramsOfItsSession) {
  const std::string session = begin("hold *");
  const auto other = exec(session, {"hold", "x"});
  ASSERT_TRUE(other) << other.error().message;
  const model::Execution held = waits(session, {"ls"});
  ASSERT_TRUE(vote(approver(), idIn(held)));
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kApproved; });
  EXPECT_EQ(stored(held.id).status, Status::kBlocked) << "its approval is not spent yet";
  EXPECT_EQ(fake_->provisioned().size(), 1U);
  fake_->release();
  EXPECT_EQ(ended(other->id).status, Status::kCompleted);
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(ExecAsksTest, AnApprovalThatIsOverWhileItWaitsSaysSo) {
  config_.escalation.grant_us = 200'000;
  const std::string session = begin("hold *");
  const auto other = exec(session, {"hold", "x"});
  ASSERT_TRUE(other) << other.error().message;
  const model::Execution held = waits(session, {"ls"});
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "approval_expired");
  fake_->release();
  EXPECT_EQ(ended(other->id).status, Status::kCompleted);
}

class ExecVotesTest : public ExecAsksTest {
 protected:
  // Approved by `boss`, while another program keeps the session.
  model::Execution approved() {
    session_ = begin("hold *");
    for (const char* key : {"key_of_boss", "key_of_chief"})
      putKey(0, key);
    const auto other = exec(session_, {"hold", "x"});
    EXPECT_TRUE(other) << other.error().message;
    other_ = other ? other->id : "";
    model::Execution held = waits(session_, {"ls"});
    EXPECT_TRUE(vote(approver("boss"), idIn(held)));
    return held;
  }
  void letIn() {
    fake_->release();
    EXPECT_EQ(ended(other_).status, Status::kCompleted);
  }
  std::string session_;
  std::string other_;
};

TEST_F(ExecVotesTest, ItWaitsForAnotherVoteWhereOneIsRevokedMeanwhile) {
  const model::Execution held = approved();
  revokeKey("key_of_boss");
  letIn();
  runUntil([&] { return auditOf(idIn(held)).back() == "escalation.votes_revoked"; });
  const Escalation e = escalation(idIn(held));
  EXPECT_EQ(e.status, EscalationStatus::kPending);
  EXPECT_TRUE(e.decisions.front().revoked);
  EXPECT_EQ(stored(held.id).status, Status::kBlocked);
  runUntil([&] { return exec(session_, {"hold", "y"}).has_value(); });  // the session continues
  fake_->release();
  const auto voted = vote(approver("chief"), e.id);
  ASSERT_TRUE(voted) << voted.error().message;
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kCompleted) << (done.error ? done.error->message : "");
  EXPECT_EQ(escalation(e.id).status, EscalationStatus::kUsed);
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(ExecVotesTest, ItGoesByTheVotesOfWhenItIsLetIn) {
  const model::Execution held = approved();
  revokeKey("key_of_boss");
  ASSERT_TRUE(vote(approver("chief"), idIn(held)));
  letIn();
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kCompleted) << (done.error ? done.error->message : "");
}

TEST_F(ExecVotesTest, EndsWhileItWaitsForAnother) {
  const model::Execution held = approved();
  revokeKey("key_of_boss");
  letIn();
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kPending; });
  ASSERT_TRUE(await(service_->cancel(principal(), held.id)));
  EXPECT_EQ(ended(held.id).status, Status::kCancelled);
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
}

// The first of the alike programs made the request for approval.
TEST_F(ExecAsksTest, WhoSharesAnApprovalUsesItWhereTheFirstHasEnded) {
  const std::string session = begin("hold *");
  const auto other = exec(session, {"hold", "x"});
  ASSERT_TRUE(other) << other.error().message;
  const model::Execution first = waits(session, {"ls"});
  const model::Execution second = waits(session, {"ls"});
  ASSERT_EQ(idIn(first), idIn(second));
  ASSERT_TRUE(vote(approver(), idIn(first)));
  ASSERT_TRUE(await(service_->cancel(principal(), first.id)));
  EXPECT_EQ(ended(first.id).status, Status::kCancelled);
  fake_->release();
  const model::Execution done = ended(second.id);
  EXPECT_EQ(done.status, Status::kCompleted) << (done.error ? done.error->message : "");
  EXPECT_EQ(escalation(idIn(first)).status, EscalationStatus::kUsed);
}

// Over the API, between its request and its start.
TEST_F(ExecAsksTest, AWorkspaceThatHasChangedDeniesIt) {
  const std::string session = begin();
  put(session, "deploy.sh", "good");
  const model::Execution first = waits(session, {"ls"});
  EXPECT_THAT(escalation(idIn(first)).display, HasSubstr("1 files and directories, 4 bytes"));
  put(session, "deploy.sh", "evil");
  ASSERT_TRUE(vote(approver(), idIn(first)));
  const model::Execution denied = ended(first.id);
  EXPECT_EQ(denied.status, Status::kDenied);
  EXPECT_EQ(denied.error->details.at("reason"), "approval_mismatch");
  EXPECT_THAT(denied.error->message, HasSubstr("deploy.sh has changed"));
  EXPECT_EQ(denied.started_at, 0);
  const Escalation e = escalation(idIn(first));
  EXPECT_EQ(e.status, EscalationStatus::kDenied);
  EXPECT_TRUE(e.decisions.back().automatic);
  EXPECT_THAT(e.decisions.back().reason, HasSubstr("deploy.sh has changed"));
  runUntil([&] { return fake_->live() == 1; });
  runUntil([&] { return exec(session, {"echo", "x"}).has_value(); });
  const model::Execution second = waits(session, {"ls"});
  EXPECT_NE(escalation(idIn(second)).digest, e.digest);
  ASSERT_TRUE(vote(approver(), idIn(second)));
  EXPECT_EQ(ended(second.id).status, Status::kCompleted);
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

// Later reads of the workspace may differ.
TEST_F(ExecAsksTest, WhoDecidesSeesWhatIsBound) {
  const std::string session = begin();
  put(session, "deploy.sh", "evil");
  const model::Execution held = waits(session, {"ls"});
  put(session, "deploy.sh", "good");
  const Escalation e = escalation(idIn(held));
  EXPECT_THAT(e.display, HasSubstr("may differ from that; what is bound is listed by"));
  EXPECT_THAT(e.display, HasSubstr("/tmp, /dev/shm, open descriptors and what the network"));
  const auto list = escalations_->workspaceOf(e);
  ASSERT_TRUE(list) << list.error().message;
  const auto& names = list->as_object().at("names").as_array();
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[1].at("path"), "deploy.sh");
  EXPECT_EQ(std::string(names[1].at("sha256").as_string()), base::sha256Hex("evil"));
  EXPECT_THAT(e.display,
              HasSubstr("sha256 " + std::string(list->as_object().at("sha256").as_string())));
  restart();
  EXPECT_EQ(*escalations_->workspaceOf(escalation(e.id)), *list);
  inLedger("UPDATE escalation_workspaces SET body=replace(body, 'deploy.sh', 'harmless.sh')");
  EXPECT_EQ(escalations_->workspaceOf(escalation(e.id)).error().code, Code::kConflict);
}

// The target of such a link can be written after the approval.
TEST_F(ExecAsksTest, ALinkToWhatIsNotCoveredIsRefused) {
  const std::string session = begin();
  put(session, "deploy.sh", "/tmp/real.sh", std::to_string(0120777));
  const auto refused = exec(session, {"ls"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "command");
  EXPECT_THAT(refused.error().message,
              HasSubstr("the link deploy.sh in the workspace leads to /tmp/real.sh"));
  EXPECT_THAT(refused.error().message, HasSubstr("sandbox: fresh"));
  put(session, "deploy.sh", "/usr/bin/true", std::to_string(0120777));
  waits(session, {"ls"});
}

// A pipe's content can be read only once, by the first reader.
TEST_F(ExecAsksTest, AWorkspaceWithAPipeHasNoApproval) {
  const std::string session = begin();
  put(session, "p", "x", std::to_string(010644));
  const auto refused = exec(session, {"ls"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "command");
  EXPECT_THAT(refused.error().message, HasSubstr("the FIFO p in the workspace"));
  put(session, "p", "x", std::to_string(0644));
  waits(session, {"ls"});
}

// Others of the session write there after the approval.
TEST_F(ExecAsksTest, WhatIsFoundOutsideOfTheWorkspaceHasNoApproval) {
  const std::string session = begin();
  const auto ask = [&](const std::string& cwd) {
    model::ExecRequest wanted;
    wanted.run = request({"ls"});
    wanted.run.artifacts = {};
    wanted.cwd = cwd;
    return await(sessions_->exec(principal(), session, wanted, ""));
  };
  const auto refused = ask("/tmp/x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "cwd");
  EXPECT_THAT(refused.error().message, HasSubstr("it begins in /tmp/x"));
  const auto held = ask("/workspace/tmp");
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(held->status, Status::kBlocked);
}

TEST_F(ExecAsksTest, AVariableThatNamesWhatIsNotCoveredHasNoApproval) {
  policy_.set(
      *policy::parsePolicy("version: 2\n"
                           "rules:\n"
                           "  - {name: all, why: a test, effect: allow}\n",
                           "test", model::defaultBounds().max));
  mayRun("echo *");
  start();
  model::SessionRequest made;
  made.ttl = Millis(3'600'000);
  made.idle_ttl = Millis(600'000);
  made.settings.env["GOPATH"] = "/dev/shm/go";
  const auto session = await(sessions_->create(principal(), made, ""));
  ASSERT_TRUE(session) << session.error().message;
  const auto refused = exec(session->id, {"ls"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "env");
  EXPECT_THAT(refused.error().message, HasSubstr("the variable GOPATH names /dev/shm/go"));
  EXPECT_THAT(refused.error().message, HasSubstr("sandbox: fresh"));
}

TEST_F(ExecAsksTest, AWorkspaceThatIsTooLargeHasNoApproval) {
  config_.escalation.workspace_files = 0;
  const std::string session = begin();
  FileRequest request{.argv = {"write", "f", ""}, .takes_input = true, .action = ""};
  const auto call = await(sessions_->files(principal(), session, request));
  ASSERT_TRUE(call);
  ASSERT_TRUE(await((*call)->send("")));
  ASSERT_TRUE(await((*call)->finish()));
  const auto refused = exec(session, {"ls"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  EXPECT_THAT(refused.error().message, HasSubstr("escalation.workspace_files"));
}

// An approved interpreter would run any later input.
TEST_F(ExecAsksTest, OneThatTakesInputLaterIsNotAskedFor) {
  const std::string session = begin();
  model::ExecRequest wanted;
  wanted.run = request({"ls"});
  wanted.run.artifacts = {};
  wanted.keep_input = true;
  const auto denied = await(sessions_->exec(principal(), session, wanted, ""));
  ASSERT_TRUE(denied) << denied.error().message;
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_THAT(denied->error->message, HasSubstr("leave out keep_input"));
  EXPECT_EQ(denied->error->details.at("escalation_available"), false);
}

// Earlier programs do not start, and new requests get 503, until the approved program has ended.
TEST_F(ExecAsksTest, NothingElseIsLetInWhileItRuns) {
  const std::string session = begin("echo *");
  const model::Execution held = waits(session, {"hold"});
  ASSERT_TRUE(vote(approver(), idIn(held)));
  runUntil([&] { return stored(held.id).status == Status::kRunning; });
  FileRequest request{.argv = {"list", "", "1", "1"}, .takes_input = false, .action = ""};
  EXPECT_EQ(await(sessions_->files(principal(), session, request)).error().code,
            Code::kUnavailable);
  EXPECT_EQ(exec(session, {"echo", "x"}).error().code, Code::kUnavailable);
  EXPECT_EQ(exec(session, {"ls"}).error().code, Code::kUnavailable) << "nor asked for";
  fake_->release();
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(ExecAsksTest, ADenialEndsIt) {
  const model::Execution held = waits(begin(), {"ls"});
  ASSERT_TRUE(vote(approver(), idIn(held), false));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "approval_denied");
}

TEST_F(ExecAsksTest, EndsWithItsSession) {
  const std::string session = begin();
  const model::Execution held = waits(session, {"ls"});
  ASSERT_TRUE(await(sessions_->end(principal(), session)));
  EXPECT_EQ(ended(held.id).status, Status::kCancelled);
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
}

TEST_F(ExecAsksTest, EndsWithTheService) {
  const std::string session = begin();
  const model::Execution held = waits(session, {"ls"});
  restart();
  EXPECT_EQ(stored(held.id).status, Status::kFailed);
  EXPECT_EQ(stored(held.id).error->type, "SERVER_RESTART");
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
}

}  // namespace
}  // namespace cloister::orchestrator
