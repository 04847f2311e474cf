// SPDX-License-Identifier: Apache-2.0
// Runs that need approval: blocked, approved, denied, expired, cancelled; over restarts too.
#include <gmock/gmock.h>

#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/blocking_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(BlockingTest, BlocksWithoutASandboxAndRunsWhenApproved) {
  start();
  const model::Execution held = blocked();
  EXPECT_EQ(held.error->type, "APPROVAL_REQUIRED");
  const std::string id = idIn(held);
  EXPECT_EQ(id, escalation(id).id);
  EXPECT_THAT(held.error->message, HasSubstr(id));
  EXPECT_EQ(escalation(id).execution_id, held.id);
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(metrics_.running, 0U);
  EXPECT_EQ(metrics_.waiting, 0U) << "no place in the queue";
  ASSERT_TRUE(vote(approver(), id));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kCompleted);
  EXPECT_EQ(done.out.bytes, "hello\n");
  EXPECT_FALSE(done.error);
  EXPECT_EQ(escalation(id).status, EscalationStatus::kUsed);
  EXPECT_THAT(auditOf(held.id), ElementsAre("execution.blocked", "execution.resumed",
                                            "execution.started", "execution.finished"));
  EXPECT_THAT(auditOf(id),
              ElementsAre("escalation.requested", "escalation.approved", "escalation.used"));
  const auto details = detailsOf(id, "escalation.approved");
  EXPECT_EQ(details.at("requester").at("user"), "user") << "both identities are in the log";
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(BlockingTest, ADenialEndsIt) {
  start();
  const model::Execution held = blocked();
  ASSERT_TRUE(vote(approver(), idIn(held), false));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->type, "APPROVAL_REQUIRED");
  EXPECT_EQ(done.error->details.at("reason"), "approval_denied");
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(BlockingTest, NobodyInTimeEndsIt) {
  wants("{roles: [approver], ttl_seconds: 1}");
  start();
  const model::Execution held = blocked();
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "approval_expired");
  EXPECT_EQ(escalation(idIn(done)).status, EscalationStatus::kExpired);
  EXPECT_EQ(escalation(idIn(done)).ended_reason, "") << "its time was over";
  EXPECT_FALSE(vote(approver(), idIn(done)));
}

TEST_F(BlockingTest, CancellingItWithdrawsTheRequest) {
  start();
  const model::Execution held = blocked();
  const auto cancelled = await(service_->cancel(principal(), held.id));
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->status, Status::kCancelled);
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
  EXPECT_THAT(escalation(idIn(held)).ended_reason, StartsWith("the run ended as cancelled"));
  const auto late = vote(approver(), idIn(held));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("it is expired already: the run ended as cancelled"));
}

TEST_F(BlockingTest, WhoAskedCannotApproveAndItIsAudited) {
  start();
  const model::Execution held = blocked();
  model::Principal self = approver("user");
  const auto refused = vote(self, idIn(held));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(detailsOf(idIn(held), "escalation.vote_refused").at("requester").at("user"), "user");
  EXPECT_EQ(vote(approver("boss", "other"), idIn(held)).error().code, Code::kNotFound);
  model::Principal viewer = approver();
  viewer.roles = model::Role::kViewer;
  EXPECT_EQ(vote(viewer, idIn(held)).error().code, Code::kDenied);
  const auto as_other = await(
      escalations_->decide(approver(), "", idIn(held), true, {.reason = "", .approver = "x"}));
  EXPECT_EQ(as_other.error().field, "approver");
  EXPECT_EQ(service_->get(principal(), held.id)->status, Status::kBlocked);
}

TEST_F(BlockingTest, AQuorumTakesTwoPersons) {
  wants("{roles: [approver], quorum: 2}");
  start();
  const model::Execution held = blocked();
  ASSERT_TRUE(vote(approver("boss"), idIn(held)));
  EXPECT_EQ(service_->get(principal(), held.id)->status, Status::kBlocked);
  model::Principal again = approver("boss");
  again.key_id = "key_2";
  EXPECT_FALSE(vote(again, idIn(held)));
  ASSERT_TRUE(vote(approver("chief"), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(BlockingTest, SurvivesARestart) {
  start();
  const model::Execution held = blocked();
  restart();
  EXPECT_EQ(service_->get(principal(), held.id)->status, Status::kBlocked);
  ASSERT_TRUE(vote(approver(), idIn(held)));
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(BlockingTest, WhatWasApprovedBeforeACrashGoesOnAfterIt) {
  start(true);
  const model::Execution held = blocked();
  control_->nodes.set({});  // keeps the run waiting
  ASSERT_TRUE(vote(approver(), idIn(held)));
  EXPECT_EQ(service_->get(principal(), held.id)->status, Status::kBlocked);
  restart(false);
  EXPECT_EQ(service_->get(principal(), held.id)->status, Status::kBlocked);
  connect();
  EXPECT_EQ(ended(held.id).status, Status::kCompleted);
}

TEST_F(BlockingTest, WhatIsStoredMustBeWhatWasAccepted) {
  start();
  const model::Execution held = blocked({"echo", "hello"});
  const model::Execution other = blocked({"echo", "evil"});
  inLedger(
      "UPDATE specs SET spec=(SELECT spec FROM specs ORDER BY execution DESC LIMIT 1) WHERE "
      "execution=(SELECT min(execution) FROM specs)");
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "approval_mismatch");
  EXPECT_TRUE(fake_->provisioned().empty());
  shut();
  inLedger("UPDATE requests SET body=replace(body, 'evil', 'more')");
  start();
  EXPECT_EQ(ended(other.id).status, Status::kFailed) << "nor after a restart";
  EXPECT_THAT(stored(other.id).error->message, HasSubstr("is not what was accepted"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(BlockingTest, AnotherImageIsNotWhatWasApproved) {
  start();
  const model::Execution held = blocked();
  offer_.image_digest = "sha256:" + std::string(64, '1');
  connect();
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->details.at("reason"), "approval_mismatch");
  EXPECT_THAT(done.error->message, HasSubstr(": the image differs: approved "));
  EXPECT_THAT(done.error->message, HasSubstr(", now " + offer_.image_digest + "; ask anew"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(BlockingTest, AHardDenialIsNotForApproval) {
  start();
  const auto denied = run({"echo", "x"}, "evil");
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_EQ(denied->error->type, "PERMISSION_DENIED");
  EXPECT_EQ(idIn(*denied), "");
  // Nor for an earlier approval.
  const model::Execution held = blocked();
  policy_.set(
      *policy::parsePolicy("version: 1\nrules:\n  - {name: none, why: closed, allow: false}\n",
                           "test", model::defaultBounds().max));
  ASSERT_TRUE(vote(approver(), idIn(held)));
  const model::Execution done = ended(held.id);
  EXPECT_EQ(done.status, Status::kDenied);
  EXPECT_EQ(done.error->type, "PERMISSION_DENIED");
  runUntil([&] { return escalation(idIn(held)).status == EscalationStatus::kExpired; });
  EXPECT_THAT(escalation(idIn(held)).ended_reason,
              AllOf(StartsWith("the run ended as denied: "), HasSubstr("closed")));
}

TEST_F(BlockingTest, AskedByHandRunsExactlyThatOnce) {
  start();
  const auto asked = askFor(request({"echo", "hello"}));
  ASSERT_TRUE(asked) << asked.error().message;
  const auto reasonOf = [&](const model::RunRequest& what, const std::string& tenant = "acme") {
    const auto refused = runWith(asked->id, what, tenant);
    EXPECT_TRUE(refused) << refused.error().message;
    EXPECT_EQ(refused->status, Status::kDenied);
    const auto* reason = refused->error->details.if_contains("reason");
    return reason == nullptr ? "" : std::string(reason->get_string());
  };
  EXPECT_EQ(reasonOf(request({"echo", "hello"})), "approval_pending");
  ASSERT_TRUE(vote(approver(), asked->id));
  EXPECT_EQ(reasonOf(request({"echo", "bye"})), "approval_mismatch");
  EXPECT_EQ(reasonOf(request({"echo", "hello"}), "third"), "approval_mismatch");
  const auto good = runWith(asked->id, request({"echo", "hello"}));
  ASSERT_TRUE(good);
  EXPECT_EQ(ended(good->id).status, Status::kCompleted);
  EXPECT_EQ(reasonOf(request({"echo", "hello"})), "approval_used");
  EXPECT_EQ(escalation(asked->id).execution_id, good->id);
}

// Changes each part of the run after the approval.
TEST_F(BlockingTest, EachChangedBitIsRefused) {
  start();
  model::RunRequest base = request({"echo", "hello"});
  base.files.push_back({.path = "a.sh", .content = "echo 1", .mode = 0644});
  const auto asked = askFor(base);
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_TRUE(vote(approver(), asked->id));
  struct Case {
    const char* what;
    void (*change)(model::RunRequest&);
    const char* told;
  };
  const Case cases[] = {
      {"argv", [](auto& r) { r.command = std::vector<std::string>{"echo", "hello "}; },
       R"(: command differs: approved ["echo","hello"], now ["echo","hello "]; ask anew)"},
      {"shell for argv", [](auto& r) { r.command = std::string("echo hello"); },
       R"(: command differs: approved ["echo","hello"], now "echo hello"; ask anew)"},
      {"file", [](auto& r) { r.files[0].content = "echo 2"; }, ": the file a.sh differs; ask"},
      {"mode", [](auto& r) { r.files[0].mode = 0755; }, ": the file a.sh differs; ask"},
      {"path", [](auto& r) { r.files[0].path = "b.sh"; }, ": the file a.sh is missing now; ask"},
      {"one file more", [](auto& r) { r.files.push_back({.path = "c", .content = ""}); },
       ": the file c was not approved; ask"},
      {"env", [](auto& r) { r.env["A"] = "1"; }, ": env.A differs; ask"},
      {"input", [](auto& r) { r.input = "x"; }, ": input differs; ask"},
      {"memory", [](auto& r) { r.limits.memory_bytes += uint64_t{1} << 20; },
       ": memory_mb differs: approved "},
      {"time", [](auto& r) { r.limits.wall += Millis(1); }, ": timeout_seconds differs: approved "},
      {"artifacts", [](auto& r) { r.artifacts = {}; },
       R"(: artifacts differs: approved ["**"], now []; ask anew)"},
      {"metadata", [](auto& r) { r.metadata["note"] = "who reads the record sees it"; },
       R"(: metadata.note differs: approved none, now "who reads the record sees it"; ask)"},
  };
  for (const Case& each : cases) {
    model::RunRequest changed = base;
    each.change(changed);
    const auto refused = runWith(asked->id, changed);
    ASSERT_TRUE(refused) << each.what << ": " << refused.error().message;
    ASSERT_EQ(refused->status, Status::kDenied) << each.what;
    EXPECT_EQ(refused->error->details.at("reason"), "approval_mismatch") << each.what;
    EXPECT_THAT(refused->error->message, HasSubstr(each.told)) << each.what;
  }
  EXPECT_TRUE(fake_->provisioned().empty());
  const auto good = runWith(asked->id, base);
  ASSERT_TRUE(good);
  EXPECT_EQ(ended(good->id).status, Status::kCompleted);
}

TEST_F(BlockingTest, TheApproverSeesWhatFilesHold) {
  start();
  model::RunRequest run = request({"sh", "./a.sh"});
  run.files.push_back({.path = "a.sh", .content = "curl evil.test\n\x1b[2J", .mode = 0755});
  const auto asked = askFor(run);
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_THAT(asked->display, HasSubstr("file a.sh ("));
  EXPECT_THAT(asked->display, HasSubstr("\nartifacts: \"**\"\nnetwork:"));
  run.artifacts = {};
  EXPECT_THAT(askFor(run)->display, HasSubstr("\nartifacts: none\nnetwork:"));
  EXPECT_THAT(asked->display, HasSubstr("executable): curl evil.test\\n\\x1b[2J"));
}

TEST_F(BlockingTest, TheApproverSeesWhichToolIsCalled) {
  start();
  model::RunRequest call = request({"ls"});
  call.metadata = {{"cloister.tool", "text.search"}, {"cloister.risk", "high"}, {"task", "a\nb"}};
  const auto held = await(service_->run(principal(), call, ""));
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_THAT(escalation(idIn(*held)).display,
              HasSubstr("\ntool: text.search, risk high\nmetadata: task=a\\nb\n"));
}

TEST_F(BlockingTest, AnApprovalEnds) {
  config_.escalation.grant_us = 1;
  start();
  const auto asked = askFor(request({"echo", "hello"}));
  ASSERT_TRUE(asked);
  ASSERT_TRUE(vote(approver(), asked->id));
  const auto refused = runWith(asked->id, request({"echo", "hello"}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error->details.at("reason"), "approval_expired");
}

TEST_F(BlockingTest, APermissionRevokesItself) {
  config_.escalation.grant_us = 200'000;
  start();
  const auto asked = await(escalations_->request(
      principal(),
      {.operation = "file_write", .subject = "src/a", .reason = "work", .run = std::nullopt}));
  ASSERT_TRUE(asked) << asked.error().message;
  const auto approved = vote(approver(), asked->id);
  ASSERT_TRUE(approved);
  EXPECT_EQ(approved->status, EscalationStatus::kApproved);
  runUntil([&] { return escalation(asked->id).status == EscalationStatus::kExpired; });
  EXPECT_THAT(auditOf(asked->id),
              ElementsAre("escalation.requested", "escalation.approved", "escalation.expired"));
}

TEST_F(BlockingTest, SafeOperationsOfAnAgentNeedNobody) {
  start();
  const auto ask = [&](const char* operation, const char* subject = "/src/a") {
    return await(escalations_->request(
        principal(),
        {.operation = operation, .subject = subject, .reason = "work", .run = std::nullopt}));
  };
  EXPECT_EQ(ask("file_read")->status, EscalationStatus::kPending);
  model::Principal manager = approver();
  manager.roles = model::Role::kTenantAdmin;
  ASSERT_TRUE(await(escalations_->setPolicy(manager, "agent", true)));
  const auto safe = ask("file_read");
  EXPECT_EQ(safe->status, EscalationStatus::kApproved);
  EXPECT_TRUE(safe->decisions.at(0).automatic);
  EXPECT_THAT(safe->decisions.at(0).reason, HasSubstr("escalation.safe_operations has file_read"));
  EXPECT_EQ(ask("network", "a.test")->status, EscalationStatus::kPending);
  const auto address = ask("network", "10.1.2.3");
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().code, Code::kInvalid);
  EXPECT_EQ(address.error().field, "host");
  EXPECT_EQ(askFor(request({"ls"}))->status, EscalationStatus::kPending);
}

TEST_F(BlockingTest, ReplayOfAnIdempotencyKeyAsksOnce) {
  start();
  const auto first = run({"echo", "x"}, "acme", "same");
  const auto second = run({"echo", "x"}, "acme", "same");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id, second->id);
  EXPECT_EQ(escalations_->list(approver(), {})->size(), 1U);
}

TEST_F(BlockingTest, ShowsWhatWouldRunSafely) {
  start();
  const model::Execution held = blocked({"echo", "\x1b[2Jx\u202e"});
  const Escalation e = escalation(idIn(held));
  EXPECT_THAT(e.display, HasSubstr("\\u{202e}"));
  EXPECT_THAT(e.display, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(e.display, HasSubstr("image: sha256:0000"));
}

}  // namespace
}  // namespace cloister::orchestrator
