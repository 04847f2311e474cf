// SPDX-License-Identifier: Apache-2.0
// Runs, sessions and files under the rules of the agent's sandbox.
#include "orchestrator/guard/agents_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::HasSubstr;

// Whether the execution does not run: never, or only after an approval.
bool refused(Status status) {
  return status == Status::kDenied || status == Status::kBlocked;
}

TEST_F(AgentsTest, WithoutASandboxNothingIsHeld) {
  openGuarded();
  EXPECT_FALSE(refused(finished({"sudo", "ls"}).status));
  EXPECT_TRUE(violations().empty());
}

TEST_F(AgentsTest, ARefusedRunIsARecordAndAViolation) {
  openGuarded();
  give("build");
  const auto denied = run({"sudo", "ls"});
  ASSERT_TRUE(denied) << denied.error().message;
  EXPECT_TRUE(refused(denied->status));
  ASSERT_TRUE(denied->error);
  EXPECT_EQ(denied->error->type, "PERMISSION_DENIED");
  const auto& details = denied->error->details;
  EXPECT_EQ(details.at("rule"), "sudo *");
  EXPECT_EQ(details.at("words"), "sudo ls");
  EXPECT_EQ(details.at("mitigation"), "without sudo");
  EXPECT_EQ(details.at("escalation_available"), false);
  EXPECT_EQ(details.at("outcome"), "unsafe_command");
  EXPECT_EQ(details.at("level"), "build");
  ASSERT_EQ(violations().size(), 1U);
  EXPECT_EQ(violations()[0].subject, denied->id);
  EXPECT_EQ(agent()->violation_count, 1U);
  EXPECT_TRUE(refused(stored(denied->id).status));
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(AgentsTest, AReplayIsNotAnotherViolation) {
  openGuarded();
  give("build");
  const auto first = run({"sudo", "ls"}, "acme", "key");
  const auto again = run({"sudo", "ls"}, "acme", "key");
  EXPECT_EQ(first->id, again->id);
  EXPECT_EQ(violations().size(), 1U);
}

TEST_F(AgentsTest, ViolationsLowerTheLevel) {
  openGuarded();
  give("build");
  ASSERT_TRUE(run({"sudo", "ls"}));
  EXPECT_FALSE(refused(finished({"true"}).status));
  ASSERT_TRUE(run({"sudo", "ls"}));
  EXPECT_EQ(agent()->level, "look");
  EXPECT_TRUE(refused(run({"true"})->status));
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(AgentsTest, LimitsAreOfAllThatRuns) {
  openGuarded();
  give("build");
  model::RunRequest large = request({"sleep", "100"});
  large.limits.memory_bytes = uint64_t{400} << 20;
  large.named_limits.set();
  const auto first = await(service_->run(principal(), large, ""));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, Status::kRunning);
  EXPECT_EQ(service_->reservedBy(principal()).memory_bytes, uint64_t{400} << 20);
  EXPECT_EQ(service_->reservedBy(principal()).cpu_millis, 500U)
      << "of a whole one, as the level has it";
  const auto second = await(service_->run(principal(), large, ""));
  ASSERT_TRUE(second);
  EXPECT_TRUE(refused(second->status));
  EXPECT_EQ(second->error->details.at("outcome"), "resource_exceeded");
  EXPECT_THAT(second->error->message, HasSubstr("requires 400, only 112 of 512"));
  EXPECT_EQ(await(service_->run(principal("other"), large, ""))->status, Status::kRunning)
      << "another tenant's agent of the same name";
  ASSERT_TRUE(await(service_->cancel(principal(), first->id)));
}

TEST_F(AgentsTest, FilesOfARequestAndItsVariables) {
  openGuarded();
  give("build");
  model::RunRequest with = request({"true"});
  with.files = {{"secrets/key", "x", 0644}};
  EXPECT_EQ(await(service_->run(principal(), with, ""))->error->details.at("rule"),
            "/workspace/secrets/*");
  with.files = {{"src/a", "x", 0644}};
  EXPECT_FALSE(refused(await(service_->run(principal(), with, ""))->status));
  give("build");  // raised again
  with.env = {{"LD_PRELOAD", "/workspace/x.so"}};
  const auto preload = await(service_->run(principal(), with, ""));
  EXPECT_EQ(preload->status, Status::kDenied) << "and not blocked";
  EXPECT_FALSE(preload->error->details.at("escalation_available").as_bool());
  EXPECT_THAT(preload->error->message, testing::Not(HasSubstr("approval")));
  give("build");
  with.env = {{"GIT_SSH_COMMAND", "sudo it's"}};
  EXPECT_TRUE(refused(await(service_->run(principal(), with, ""))->status));
  give("build");
  with.env = {{"MESSAGE", "sudo is 'not' for you"}, {"GREETING", "hello"}};
  EXPECT_FALSE(refused(await(service_->run(principal(), with, ""))->status));
}

TEST_F(AgentsTest, AToolThatNeedsWhatWasRevoked) {
  openGuarded();
  revoked_ = {"file_write"};
  give("build");
  model::RunRequest call = request({"true"});
  call.metadata = {{"cloister.tool", "notes.add"}, {"cloister.capabilities", "file_write"}};
  const auto refused_call = await(service_->run(principal(), call, ""));
  EXPECT_EQ(refused_call->status, Status::kDenied);
  EXPECT_THAT(refused_call->error->message, HasSubstr("notes.add needs file_write"));
  give("build");
  call.metadata["cloister.capabilities"] = "file_read";
  EXPECT_FALSE(refused(await(service_->run(principal(), call, ""))->status));
}

TEST_F(AgentsTest, WhatWasApprovedForATimeMayBeDone) {
  openGuarded();
  give("build");
  model::RunRequest with = request({"true"});
  with.files = {{"secrets/key", "x", 0644}};
  const auto status = [&](const model::RunRequest& wanted) {
    give("build");  // raised again
    return await(service_->run(principal(), wanted, ""))->status;
  };
  EXPECT_TRUE(refused(status(with)));
  const std::string file = approve("file_write", "/workspace/secrets/key");
  EXPECT_FALSE(refused(status(with)));
  with.files = {{"secrets/other", "x", 0644}};
  EXPECT_TRUE(refused(status(with)));
  EXPECT_TRUE(refused(status(request({"doas", "ls"}))));
  approve("command", "doas ls");
  EXPECT_FALSE(refused(status(request({"doas", "ls"}))));
  EXPECT_TRUE(refused(status(request({"doas", "ls", "-l"})))) << "that text and no other";
  approve("command", "sudo ls");
  EXPECT_TRUE(refused(status(request({"sudo", "ls"})))) << "that nobody may allow";

  with.files = {{"secrets/key", "x", 0644}};
  becomes(file, model::EscalationStatus::kDenied);  // taken back
  EXPECT_TRUE(refused(status(with)));
  approve("file_write", "secrets/key", -1);
  EXPECT_TRUE(refused(status(with))) << "its time is over";
  approve("file_write", "secrets/key", 60, "acme", "another");
  approve("file_write", "secrets/key", 60, "rival");
  EXPECT_TRUE(refused(status(with))) << "another agent's, another tenant's";
  approve("file_write", "secrets/key", 60, "acme", "agent", true);
  EXPECT_TRUE(refused(status(with))) << "by a rule alone";
  approve("file_read", "secrets/key");
  EXPECT_TRUE(refused(status(with))) << "another operation";
  approve("file_write", "secrets/*");
  EXPECT_FALSE(refused(status(with))) << "from the workspace on";
}

TEST_F(AgentsTest, AnApprovalOfFilesOpensWhatItSaysOrIsRefused) {
  openGuarded();
  give("look");
  EscalationService escalations(control_, service_->approvals(), agents_);
  const auto ask = [&](const std::string& operation, const std::string& path) {
    return await(escalations.request(
        principal(),
        {.operation = operation, .subject = path, .reason = "work", .run = std::nullopt}));
  };
  for (const char* path : {"*.txt", "/workspace/a*", "/etc/hosts"}) {
    const auto refusal = ask("file_write", path);
    ASSERT_FALSE(refusal) << path;
    EXPECT_EQ(refusal.error().code, Code::kInvalid);
    EXPECT_EQ(refusal.error().field, "path");
    EXPECT_THAT(refusal.error().message, HasSubstr("name one file, or one directory")) << path;
  }
  EXPECT_FALSE(ask("file_read", "*.txt"));
  const auto whole = ask("file_write", "/workspace");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->subject, "/workspace/*");
  EXPECT_THAT(whole->display, HasSubstr("it opens the directory /workspace and all beneath it"));
  EXPECT_EQ(ask("file_write", "d/")->subject, "/workspace/d/*");
}

TEST_F(AgentsTest, NobodyApprovesWhatWouldOpenNothing) {
  openGuarded();
  give("look");
  EscalationService escalations(control_, service_->approvals(), agents_);
  const auto pending = [&](const std::string& path) {
    store::NewEscalation asked;
    asked.escalation.operation = "file_write";
    asked.escalation.subject = path;
    asked.escalation.requester = principal();
    asked.escalation.roles = {"approver"};
    asked.escalation.grant_us = 60'000'000;
    asked.escalation.expires_at = base::wallMicros() + 60'000'000;
    asked.event = {
        .action = "escalation.requested", .subject = "", .principal = principal(), .details = {}};
    return store::testing::commit(*store_, store::addEscalation, asked)->id;
  };
  model::Principal boss = principal();
  boss.agent.clear();
  boss.user = "boss";
  boss.key_id = "key_of_boss";
  boss.roles = model::Role::kApprover;
  const auto vote = [&](const std::string& id, bool approve) {
    return await(escalations.decide(boss, "", id, approve, {.reason = "why", .approver = ""}));
  };
  const std::string old = pending("*.txt");  // recorded by a service with looser checks
  const auto refusal = vote(old, true);
  ASSERT_FALSE(refusal);
  EXPECT_EQ(refusal.error().code, Code::kConflict);
  EXPECT_THAT(refusal.error().message, HasSubstr("deny it, so that it is asked for anew"));
  EXPECT_TRUE(vote(old, false)) << "which can be denied";
  EXPECT_TRUE(vote(pending("notes"), true));
  approve("file_write", "*.md");
  const auto grants = guard_->grantsOf({.tenant = "acme", .agent = "agent"});
  ASSERT_TRUE(grants);
  EXPECT_EQ(grants->size(), 2U);
  for (const model::TemporaryPermission& each : *grants)
    EXPECT_EQ(each.pattern, "/workspace/notes") << "the other opens nothing for anybody";
}

TEST_F(AgentsTest, WhatIsSafeIsApprovedByARuleAndCanBeDone) {
  openGuarded();
  give("look");
  EscalationService escalations(control_, service_->approvals(), agents_);
  const auto ask = [&](const std::string& operation, const std::string& subject) {
    return await(escalations.request(
        principal(),
        {.operation = operation, .subject = subject, .reason = "work", .run = std::nullopt}));
  };
  EXPECT_EQ(ask("command", "ls -l")->status, model::EscalationStatus::kPending);
  model::Principal manager = principal();
  manager.roles = model::Role::kTenantAdmin;
  ASSERT_TRUE(await(escalations.setPolicy(manager, "agent", true)));
  EXPECT_EQ(finished({"ls", "-a"}).status, Status::kCompleted) << "a rule approves it by itself";
  const auto safe = ask("command", "ls -l");
  EXPECT_EQ(safe->status, model::EscalationStatus::kApproved);
  EXPECT_TRUE(safe->decisions.at(0).automatic);
  EXPECT_EQ(safe->decisions.at(0).reason,
            "safe_operations of the levels has command_execution at level reads");
  auto log = *store_->audit(store::Scope::allTenants(), 0, 1000);
  std::erase_if(log, [](const auto& each) { return each.event.action != "escalation.approved"; });
  ASSERT_EQ(log.size(), 2U) << "the run's, and this one";
  EXPECT_EQ(log.back().event.subject, safe->id);
  EXPECT_EQ(model::shownDetails(log.back()).at("reason").as_string(), safe->decisions.at(0).reason);
  EXPECT_EQ(ask("command", "echo x")->decisions.at(0).reason,
            "the agent's sandbox, at level look, allows it");
  EXPECT_EQ(ask("file_read", "notes")->decisions.at(0).reason,
            "the agent's sandbox, at level look, allows it");
  EXPECT_FALSE(refused(run({"ls", "-l"})->status));
  EXPECT_TRUE(refused(run({"rm", "x"})->status)) << "not safe";
  EXPECT_EQ(ask("command", "rm x")->status, model::EscalationStatus::kPending) << "not safe";
  EXPECT_EQ(ask("network", "example.org")->status, model::EscalationStatus::kPending);
  give("careful");
  EXPECT_TRUE(refused(run({"ls", "-l"})->status)) << "that wants a person by now";
  EXPECT_EQ(ask("command", "ls -l")->status, model::EscalationStatus::kPending);
}

TEST_F(AgentsTest, TheLevelSaysWhetherARuleApproves) {
  openGuarded();
  levels_.levels.at("careful").escalation.require_human_approval.clear();
  give("careful");
  const auto needsNobody = [&] { return *guard_->needsNobody(principal(), "command", "ls"); };
  EXPECT_EQ(needsNobody(),
            std::optional<std::string>(
                "safe_operations of the levels has command_execution at level reads"));
  escalation_.auto_approve_safe = false;
  give("careful");
  EXPECT_EQ(needsNobody(), std::optional<std::string>("")) << "the agent's own word goes before";
}

// What is shown of an agent's rules is what its requests meet, with the setting that decides.
TEST_F(AgentsTest, TheSettingThatApprovesByRuleIsShown) {
  openGuarded("careful");
  EscalationService escalations(control_, service_->approvals(), agents_);
  model::Principal manager = principal();
  manager.agent.clear();
  manager.roles = model::Role::kTenantAdmin;
  const auto shown = [&](const std::string& level) {
    const auto now = escalations.autoApprovalOf(manager, "agent");
    EXPECT_TRUE(now);
    EXPECT_EQ(now->level, level);
    return std::pair(now->safe, now->by);
  };
  EXPECT_EQ(shown("careful"), std::pair(true, std::string("level"))) << "the default level";
  give("look");
  EXPECT_EQ(shown("look"), std::pair(false, std::string("level")));
  ASSERT_TRUE(await(escalations.setPolicy(manager, "agent", true)));
  EXPECT_EQ(shown("look"), std::pair(true, std::string("policy")));
  EXPECT_TRUE(guard_->standingRulesWith(*agent())->auto_approve_safe);
  EXPECT_EQ(guard_->standingRulesWith(*agent())->auto_approve_by, "policy");
  escalation_.auto_approve_safe = false;
  give("look");
  EXPECT_EQ(shown("look"), std::pair(false, std::string("sandbox")));
  model::Principal other = principal();
  other.agent = "other";
  EXPECT_EQ(escalations.autoApprovalOf(other, "agent")->level, "") << "not for another agent";
}

TEST_F(AgentsTest, WithoutALevelThePolicyAloneIsShown) {
  openGuarded();
  EscalationService escalations(control_, service_->approvals(), agents_);
  model::Principal manager = principal();
  manager.agent.clear();
  manager.roles = model::Role::kTenantAdmin;
  EXPECT_EQ(escalations.autoApprovalOf(manager, "agent")->by, "default");
  ASSERT_TRUE(await(escalations.setPolicy(manager, "agent", true)));
  const auto now = escalations.autoApprovalOf(manager, "agent");
  EXPECT_TRUE(now->safe);
  EXPECT_EQ(now->by, "policy");
}

TEST_F(AgentsTest, NoRuleLengthensWhatAPersonGave) {
  openGuarded();
  escalation_.auto_approve_safe = true;
  give("look");
  const auto needsNobody = [&](const std::string& operation, const std::string& subject) {
    return guard_->needsNobody(principal(), operation, subject).value().value();
  };
  const auto may = [&](policy::Operation operation) {
    return policy::validateOperation(**guard_->rulesOf(principal()), operation, {},
                                     base::wallMicros())
        .approved();
  };
  approve("command", "rm x");
  approve("command", "ls -l");
  approve("file_write", "/workspace/notes");
  EXPECT_TRUE(may({.what = policy::CommandOperation{.text = "rm x", .argv = {}}, .wanted = {}}));
  EXPECT_TRUE(may(
      {.what = policy::FileOperation{policy::FileAccess::kWrite, "notes", false}, .wanted = {}}));
  EXPECT_EQ(needsNobody("command", "rm x"), "") << "a person decides again";
  EXPECT_EQ(needsNobody("file_write", "/workspace/notes"), "");
  EXPECT_EQ(needsNobody("command", "ls -l"),
            "safe_operations of the levels has command_execution at level reads");
  EXPECT_EQ(needsNobody("command", "echo x"), "the agent's sandbox, at level look, allows it");
}

TEST_F(AgentsTest, WithoutAnAnswerTheFallbackDecides) {
  config_.escalation.ttl_us = 100'000;
  openGuarded();
  const auto unanswered = [&](const std::string& action, const std::string& level,
                              const std::string& path) {
    escalation_.fallback_action = action;
    give(level);
    EscalationService escalations(control_, service_->approvals(), agents_);
    const auto asked = await(escalations.request(
        principal(),
        {.operation = "file_write", .subject = path, .reason = "work", .run = std::nullopt}));
    runUntil([&] {
      return escalations.get(principal(), "", asked->id)->status !=
             model::EscalationStatus::kPending;
    });
    return escalations.get(principal(), "", asked->id)->status;
  };
  const auto may = [&](policy::FileAccess access) {
    const auto rules = *guard_->rulesOf(principal());
    const policy::Operation operation{.what = policy::FileOperation{access, "notes", false},
                                      .wanted = {}};
    return policy::validateOperation(*rules, operation, {}, base::wallMicros()).approved();
  };
  using model::EscalationStatus;
  EXPECT_EQ(unanswered("deny", "careful", "/workspace/notes"), EscalationStatus::kExpired);
  EXPECT_FALSE(may(policy::FileAccess::kRead));
  EXPECT_EQ(unanswered("allow_read_only", "careful", "/workspace/*"), EscalationStatus::kExpired)
      << "one file";
  EXPECT_EQ(unanswered("allow_read_only", "build", "/workspace/secrets/key"),
            EscalationStatus::kExpired)
      << "which a rule forbids";
  approve("file_read", "/workspace/secrets/given");
  const policy::Operation given{
      .what = policy::FileOperation{policy::FileAccess::kRead, "secrets/given", false},
      .wanted = {}};
  EXPECT_TRUE(
      policy::validateOperation(**guard_->rulesOf(principal()), given, {}, base::wallMicros())
          .approved());
  EXPECT_EQ(unanswered("allow_read_only", "build", "/workspace/secrets/given"),
            EscalationStatus::kExpired)
      << "silence does not lengthen what a person gave";
  EXPECT_EQ(unanswered("allow_read_only", "careful", "/workspace/notes"),
            EscalationStatus::kApproved);
  EXPECT_TRUE(may(policy::FileAccess::kRead));
  EXPECT_FALSE(may(policy::FileAccess::kWrite));
}

TEST_F(AgentsTest, TheDefaultLevelHoldsWhoHasNoSandbox) {
  openGuarded("look");
  EXPECT_TRUE(refused(run({"sudo", "ls"})->status));
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
  model::Principal admin = principal();
  admin.roles = model::Role::kAdmin;
  EXPECT_FALSE(refused(await(service_->run(admin, request({"true"}), ""))->status));
  EXPECT_EQ(violations().size(), 1U) << "recorded, though there is no sandbox to count it";
}

TEST_F(AgentsTest, ALevelThatIsGoneRefusesEverything) {
  openGuarded();
  give("gone");
  const auto refused = run({"true"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("there is no level \"gone\""));
}

TEST_F(AgentsTest, ADryRunIsHeldAndNotCounted) {
  openGuarded();
  give("build");
  const auto plan = await(service_->plan(principal(), request({"sudo", "ls"})));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kDenied);
  EXPECT_TRUE(violations().empty());
}

TEST_F(AgentsTest, SessionsTheirProgramsAndFiles) {
  openGuarded();
  give("build");
  Asked wanted = asked();
  wanted.settings.limits.memory_bytes = uint64_t{1} << 30;
  wanted.settings.named_limits.set();
  EXPECT_EQ(create(wanted).error().code, Code::kDenied);
  const std::string id = created();
  EXPECT_TRUE(refused(exec(id, {"sudo", "ls"})->status));
  give("build");
  EXPECT_EQ(ran(id, {"echo", "x"}).status, Status::kCompleted);
  const auto write =
      await(sessions_->files(principal(), id, {{"write", "secrets/a", ""}, true, ""}));
  ASSERT_FALSE(write);
  EXPECT_EQ(write.error().code, Code::kDenied);
  EXPECT_THAT(write.error().message, HasSubstr("path /workspace/secrets/a is forbidden"));
  const auto remove = await(sessions_->files(principal(), id, {{"remove", "src", "1"}, false, ""}));
  EXPECT_EQ(remove.error().code, Code::kDenied) << "the level does not delete";
  EXPECT_EQ(violations().front().subject, id);
  EXPECT_EQ(violations().front().operation, "file_delete");
}

// The rules are checked again during the move to a new sandbox, and the move fails.
TEST_F(AgentsTest, NothingIsLetInBeforeTheRulesAreApplied) {
  config_.rules_every = std::chrono::milliseconds(1);
  openGuarded("build");
  const std::string id = created();
  const std::vector<std::string> others = {"one", "two"};
  std::map<std::string, std::string> runs;
  for (const std::string& tenant : others) {
    runs[tenant] = run({"hold"}, tenant)->id;
    runUntil([&] { return stored(runs[tenant]).status == Status::kRunning; });
  }
  const auto refused = [&] {
    const auto program = exec(id, {"echo", "x"});
    ASSERT_FALSE(program);
    EXPECT_EQ(program.error().code, Code::kUnavailable);
    EXPECT_THAT(program.error().message, HasSubstr("the rules of its agent have changed"));
  };
  fake_->holdProvisions(true);
  give("look");
  for (const std::string& tenant : others) {  // a look begins after the change, and is observed
    give("look", tenant);
    runUntil([&] { return stored(runs[tenant]).status == Status::kFailed; });
    refused();
  }
  fake_->failProvision(Error{Code::kUnavailable, "none is to be had", ""});
  fake_->holdProvisions(false);
  settle();
  refused();
  fake_->failProvision({});
  runUntil([&] { return exec(id, {"echo", "x"}).has_value(); });
  EXPECT_THAT(auditOf(id), Contains("session.rules_applied"));
}

}  // namespace
}  // namespace cloister::orchestrator
