// SPDX-License-Identifier: Apache-2.0
// Two agents of the same tenant: ownership, and the rules where both meet.
#include <algorithm>
#include <optional>

#include <gmock/gmock.h>

#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/sessions/session_fixture.h"
#include "orchestrator/sessions/session_memory.h"
#include "policy/agent/rules.h"
#include "store/rows/agents.h"
#include "store/store_testing.h"

namespace cloister::orchestrator {
namespace {

using model::Role;
using model::Roles;
using model::Status;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kLevels = R"(
version: 1
sandbox_levels:
  build:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_commands: [{pattern: "sudo *", why: a test, mitigation: without sudo}]
      forbidden_paths: [{path: "/workspace/secrets/*", why: a test}]
      allowed_file_operations: [read, write, create]
      project_code: allow
  same:
    description: as build, and one file less
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_commands: [{pattern: "sudo *", why: a test, mitigation: without sudo}]
      dangerous_patterns: [{pattern: "git push *", risk: privileged, outcome: escalate, why: a test}]
      forbidden_paths: [{path: "/workspace/keys/*", why: a test}]
      allowed_file_operations: [read, write, create]
      project_code: allow
    resource_limits: {max_execution_time_minutes: 1}
  look:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{pattern: "echo *", why: a test}, {pattern: "hold *", why: a test}]
      forbidden_commands: [{pattern: "sudo *", why: a test, mitigation: without sudo}]
      allowed_file_operations: [read]
)";

class BoundaryTest : public SessionsTest {
 protected:
  AgentGuard* guard() override {
    guard_ = std::make_unique<AgentGuard>(*store_, levels_, languages_, "");
    return guard_.get();
  }
  static model::Principal as(const std::string& agent, Roles roles = Role::kAgent) {
    model::Principal who = principal();
    who.agent = agent;
    who.roles = roles;
    who.key_id = "key_of_" + agent;
    return who;
  }
  static model::Principal above(const std::string& agent) {
    return as(agent, Roles(Role::kAgent).with(Role::kOperator));
  }
  void give(const std::string& agent, const std::string& level,
            std::vector<model::TemporaryPermission> for_a_time = {}) {
    model::AgentSandbox sandbox;
    sandbox.temporary_permissions = std::move(for_a_time);
    sandbox.tenant = "acme";
    sandbox.agent = agent;
    sandbox.level = level;
    sandbox.created_at = 1;
    const auto known = store_->agents().sandbox(store::Scope::allTenants(), {"acme", agent});
    std::optional<Result<model::AgentSandbox>> put;
    store_->write(store::writing(store::putAgent, store::Scope::allTenants(), sandbox,
                                 known ? known->version : 0, 10,
                                 {.action = "agent.updated",
                                  .subject = "agent:acme/" + agent,
                                  .principal = principal(),
                                  .details = {}}),
                  [this, &put](Result<model::AgentSandbox> stored) {
                    boost::asio::post(*io_, [&put, stored] { put = stored; });
                  });
    const auto work = boost::asio::make_work_guard(*io_);
    runUntil([&] { return put.has_value(); });
    ASSERT_TRUE(*put);
  }
  std::string sessionOf(const std::string& agent) {
    const auto session = await(sessions_->create(as(agent), asked(), ""));
    EXPECT_TRUE(session) << session.error().message;
    return session ? session->id : "";
  }
  Result<model::Execution> execAs(const model::Principal& who, const std::string& session,
                                  std::vector<std::string> argv, bool from_inside = false) {
    model::ExecRequest wanted = program(std::move(argv));
    wanted.from_inside = from_inside;
    return await(sessions_->exec(who, session, wanted, ""));
  }
  Result<std::shared_ptr<FileCall>> filesAs(const model::Principal& who, const std::string& session,
                                            std::vector<std::string> argv) {
    return await(sessions_->files(who, session, {std::move(argv), false, ""}));
  }
  static model::TemporaryPermission forAnHour(std::string operation, std::string pattern) {
    return {std::move(operation), std::move(pattern), base::wallMicros() + 3'600'000'000,
            "ESC-2026-001"};
  }
  uint64_t countedOf(const std::string& agent) {
    return store_->agents().sandbox(store::Scope::allTenants(), {"acme", agent})->violation_count;
  }
  model::Violation lastViolation(const std::string& agent) {
    store::ViolationQuery query;
    query.of = {.tenant = "acme", .agent = agent};
    const auto found = store_->agents().violations(store::Scope::allTenants(), query);
    return found->empty() ? model::Violation{} : found->front();
  }

  policy::Levels levels_ = policy::parseLevels(kLevels, "test").value();
  std::unique_ptr<AgentGuard> guard_;
};

TEST_F(BoundaryTest, AnotherAgentsExecutionsAndSessionsAreNotThere) {
  open();
  const std::string session = sessionOf("alice");
  const std::string run = execAs(as("alice"), session, {"hold"})->id;
  const auto memory = std::make_unique<SessionMemory>(*sessions_, *store_, model::MemoryBounds{});
  const model::Principal bob = as("bob");
  const auto gone = [](const auto& result) {
    return result ? "there" : result.error().code == Code::kNotFound ? "404" : "other";
  };
  EXPECT_STREQ(gone(service_->get(bob, run)), "404");
  EXPECT_STREQ(gone(service_->log(bob, run)), "404");
  EXPECT_STREQ(gone(await(service_->wait(bob, run, Millis(0)))), "404");
  EXPECT_STREQ(gone(await(service_->cancel(bob, run))), "404");
  EXPECT_STREQ(gone(await(service_->input(bob, run, {.data = "x"}))), "404");
  EXPECT_STREQ(gone(await(service_->signal(bob, run, 15))), "404");
  EXPECT_STREQ(gone(await(service_->resize(bob, run, {}))), "404");
  EXPECT_STREQ(gone(sessions_->get(bob, session)), "404");
  EXPECT_STREQ(gone(sessions_->log(bob, session)), "404");
  EXPECT_STREQ(gone(sessions_->kernels(bob, session)), "404");
  EXPECT_STREQ(gone(await(sessions_->end(bob, session))), "404");
  EXPECT_STREQ(gone(await(sessions_->renew(bob, session, {}))), "404");
  EXPECT_STREQ(gone(await(sessions_->move(bob, session, {}))), "404");
  EXPECT_STREQ(gone(await(sessions_->connect(bob, session, 80))), "404");
  EXPECT_STREQ(gone(await(sessions_->watch(bob, session, "", false))), "404");
  EXPECT_STREQ(gone(await(sessions_->restartKernel(bob, session, "python"))), "404");
  EXPECT_STREQ(gone(execAs(bob, session, {"echo"})), "404");
  EXPECT_STREQ(gone(filesAs(bob, session, {"read", "f"})), "404");
  EXPECT_STREQ(gone(memory->list(bob, {.session = session})), "404");
  EXPECT_STREQ(gone(await(memory->set(bob, session, "k", "1"))), "404");
  EXPECT_TRUE(service_->list(bob, {})->empty());
  EXPECT_TRUE(sessions_->list(bob, {})->empty());
  EXPECT_EQ(stored(run).status, Status::kRunning);
  EXPECT_EQ(storedSession(session).status, model::SessionStatus::kRunning);
}

TEST_F(BoundaryTest, AViewerSeesAndAnOperatorActs) {
  open();
  const std::string session = sessionOf("alice");
  const std::string run = execAs(as("alice"), session, {"hold"})->id;
  const model::Principal viewer = as("bob", Roles(Role::kAgent).with(Role::kViewer));
  EXPECT_TRUE(service_->get(viewer, run));
  EXPECT_TRUE(sessions_->log(viewer, session));
  EXPECT_EQ(service_->list(viewer, {})->size(), 1U);
  for (const auto& error :
       {await(service_->cancel(viewer, run)).error(), execAs(viewer, session, {"echo"}).error(),
        await(service_->signal(viewer, run, 15)).error(),
        await(sessions_->end(viewer, session)).error(),
        await(sessions_->renew(viewer, session, {})).error(),
        filesAs(viewer, session, {"remove", "f", "0"}).error()}) {
    EXPECT_EQ(error.code, Code::kDenied) << error.message;
    EXPECT_THAT(error.message, HasSubstr("it is another agent's, which this credential only sees"));
    EXPECT_THAT(error.message, HasSubstr("one with the roles agent and operator"));
  }
  EXPECT_EQ(stored(run).status, Status::kRunning);
  const model::Principal boss = as("", Role::kOperator);
  EXPECT_TRUE(await(service_->cancel(boss, run)));
  runUntil([&] { return stored(run).status == Status::kCancelled; });
  EXPECT_TRUE(await(sessions_->end(boss, session)));
  EXPECT_EQ(await(sessions_->end(viewer, session)).error().code, Code::kDenied)
      << "one that has ended, too";
}

TEST_F(BoundaryTest, WhoseOwnRulesAreStricterThanTheSandboxRunsNothingThere) {
  open();
  give("alice", "build");
  give("bob", "look");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  const auto refused = execAs(above("bob"), session, {"echo", "x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("the session was made by agent alice"));
  EXPECT_THAT(refused.error().message, HasSubstr("make a session of your own"));
  EXPECT_EQ(detailsOf(session, "session.refused").at("reason"), "agent_boundary");
  EXPECT_TRUE(execAs(above("carol"), session, {"echo", "x"})) << "whose walls are the same";
  EXPECT_TRUE(execAs(above("nobody"), session, {"echo", "x"})) << "who is held to no rules";
  const std::string bare = sessionOf("nobody");
  EXPECT_FALSE(execAs(above("bob"), bare, {"echo", "x"})) << "a sandbox without rules";
  EXPECT_FALSE(execAs(above("carol"), bare, {"echo", "x"}));
  EXPECT_TRUE(execAs(above("alice"), sessionOf("bob"), {"echo", "x"})) << "a stricter sandbox";
}

TEST_F(BoundaryTest, ASessionThatIsBeingMadeIsNotTakenForOneThatIsTooOpen) {
  open();
  give("alice", "build");
  give("bob", "look");
  fake_->holdProvisions(true);
  const auto making = start(sessions_->create(as("alice"), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  const std::string session = sessions_->list(as("alice"), {})->at(0).id;
  const auto early = execAs(above("bob"), session, {"echo", "x"});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kConflict);
  EXPECT_THAT(auditOf(session), Not(Contains("session.refused")));
  fake_->holdProvisions(false);
  ASSERT_TRUE(finish(making));
  EXPECT_EQ(execAs(above("bob"), session, {"echo", "x"}).error().code, Code::kDenied);
}

TEST_F(BoundaryTest, TheRulesOfBothHold) {
  open();
  give("alice", "build");
  give("carol", "same");
  give("bob", "look");
  const std::string session = sessionOf("alice");
  using Argv = std::vector<std::string>;
  for (const Argv& argv : {Argv{"sudo", "ls"}, Argv{"git", "push", "x"}}) {
    const auto run = execAs(above("carol"), session, argv);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->status, Status::kDenied) << "no approval lifts " << argv[0];
    EXPECT_EQ(run->error->details.at("escalation_available"), false);
    EXPECT_EQ(lastViolation("carol").subject, run->id) << "it is who tried";
  }
  EXPECT_EQ(lastViolation("alice").id, "");
  const auto of_bob = execAs(above("alice"), sessionOf("bob"), {"ls"});
  EXPECT_EQ(of_bob->status, Status::kDenied) << "which bob may not run";
  for (const char* path : {"secrets/a", "keys/a"}) {
    const auto write = filesAs(above("carol"), session, {"read", path});
    ASSERT_FALSE(write) << path;
    EXPECT_EQ(write.error().code, Code::kDenied);
    EXPECT_THAT(write.error().message, HasSubstr("the rules of both hold"));
  }
  EXPECT_FALSE(filesAs(as("alice"), session, {"read", "secrets/a"}));
  const auto own = execAs(as("carol"), sessionOf("carol"), {"git", "push", "x"});
  EXPECT_EQ(own->status, Status::kBlocked) << "in a session of its own it may be approved";
}

TEST_F(BoundaryTest, WhoIsHeldToNothingIsHeldToTheMakersRules) {
  open();
  give("alice", "build");
  const std::string session = sessionOf("alice");
  const auto refused = execAs(above("nobody"), session, {"sudo", "ls"});
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->status, Status::kDenied);
  const base::json::object& details = refused->error->details;
  EXPECT_EQ(details.at("agent"), "alice") << "whose rules they are";
  EXPECT_EQ(details.at("outcome"), "agent_boundary") << "as the violation has it";
  EXPECT_THAT(std::string(details.at("mitigation").as_string()), HasSubstr("no approval lifts"));
  EXPECT_EQ(details.at("mitigations"), base::json::array{details.at("mitigation")});
  EXPECT_EQ(filesAs(above("nobody"), session, {"read", "secrets/a"}).error().code, Code::kDenied);
  EXPECT_EQ(await(sessions_->save(above("nobody"), session, false)).error().code, Code::kDenied);
  EXPECT_TRUE(filesAs(above("nobody"), session, {"read", "free"}));
}

TEST_F(BoundaryTest, NoApprovalForATimeLiftsARuleInAnothersSession) {
  open();
  give("alice", "build", {forAnHour("file_delete", "/workspace/a")});
  give("carol", "same", {forAnHour("command_execution", "git push x")});
  const std::string session = sessionOf("alice");
  const auto push = [&](const std::string& in) {
    return execAs(above("carol"), in, {"git", "push", "x"})->status;
  };
  EXPECT_NE(push(sessionOf("carol")), Status::kBlocked) << "it is allowed where it was approved";
  EXPECT_EQ(push(session), Status::kDenied);
  EXPECT_TRUE(filesAs(as("alice"), session, {"remove", "a", "0"}));
  EXPECT_EQ(filesAs(above("nobody"), session, {"remove", "a", "0"}).error().code, Code::kDenied)
      << "the maker's approval is not the visitor's";
}

TEST_F(BoundaryTest, ARefusalByAnothersRulesIsNotCounted) {
  open();
  give("alice", "build");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  EXPECT_FALSE(filesAs(above("carol"), session, {"read", "secrets/a"}));
  EXPECT_EQ(lastViolation("carol").outcome, "agent_boundary");
  EXPECT_THAT(lastViolation("carol").reason, HasSubstr("by the rules of agent alice"));
  EXPECT_EQ(countedOf("carol"), 0U);
  EXPECT_FALSE(filesAs(above("carol"), session, {"read", "keys/a"}));
  EXPECT_NE(lastViolation("carol").outcome, "agent_boundary");
  EXPECT_EQ(countedOf("carol"), 1U) << "by its own";
}

TEST_F(BoundaryTest, NobodyTypesIntoAnotherAgentsProgramBeyondItsRules) {
  open();
  give("bob", "look");
  const std::string session = sessionOf("alice");
  model::ExecRequest cat = program({"cat"});
  cat.keep_input = true;
  const std::string run = await(sessions_->exec(as("alice"), session, cat, ""))->id;
  const auto refused = await(service_->input(above("bob"), run, {.data = "rm -rf /"}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be held to the rules of agent bob"));
  const auto held_to_nothing = await(service_->input(above("nobody"), run, {.data = "x"}));
  EXPECT_TRUE(held_to_nothing) << held_to_nothing.error().message;
}

TEST_F(BoundaryTest, NobodyConnectsToAnotherAgentsPortsBeyondItsRules) {
  open();
  give("bob", "look");
  const std::string session = sessionOf("alice");
  const auto refused = await(sessions_->connect(above("bob"), session, 8000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be held to the rules of agent bob"));
  EXPECT_EQ(sessions_->mayConnect(above("bob"), session, "x").error().code, Code::kDenied)
      << "with a link he would be the session's own agent";
  EXPECT_TRUE(await(sessions_->connect(above("nobody"), session, 8000)));
  EXPECT_TRUE(sessions_->mayConnect(above("nobody"), session, "x"));
  EXPECT_TRUE(sessions_->mayConnect(as("bob"), sessionOf("bob"), "x"));
}

TEST_F(BoundaryTest, ACallFromInsideIsHeldToTheRulesOfWhoeverRanThere) {
  open();
  give("alice", "build");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  const auto push = [&] { return *execAs(as("alice"), session, {"git", "push", "x"}, true); };
  EXPECT_EQ(execAs(above("carol"), session, {"sudo", "ls"})->status, Status::kDenied);
  EXPECT_NE(push().status, Status::kDenied) << "what was refused left nothing behind";
  const std::string visit = execAs(above("carol"), session, {"hold"})->id;
  EXPECT_EQ(push().status, Status::kDenied);
  EXPECT_NE(execAs(as("alice"), session, {"echo", "x"}, true)->status, Status::kDenied);
  await(service_->cancel(above("carol"), visit));
  runUntil([&] { return stored(visit).status == Status::kCancelled; });
  const model::Execution refused = push();
  EXPECT_EQ(refused.status, Status::kDenied) << "it may have left a program behind";
  EXPECT_EQ(refused.error->details.size(), 1U);
  EXPECT_EQ(refused.error->details.at("reason"), "agent_boundary");
  EXPECT_THAT(refused.error->message, Not(HasSubstr("carol")));
  EXPECT_THAT(refused.error->message, Not(HasSubstr("git")));
  EXPECT_EQ(lastViolation("carol").subject, refused.id);
  EXPECT_EQ(lastViolation("carol").outcome, "agent_boundary");
  EXPECT_EQ(countedOf("carol"), 1U) << "for sudo: the call may not be hers";
  EXPECT_EQ(lastViolation("alice").id, "");
}

TEST_F(BoundaryTest, AVisitorTakesNoApprovalFromCallsOfTheSessionsAgent) {
  open();
  give("alice", "same");
  give("carol", "build");
  const std::string session = sessionOf("alice");
  ASSERT_TRUE(execAs(above("carol"), session, {"hold"}));
  EXPECT_EQ(execAs(as("alice"), session, {"git", "push", "x"}, true)->status, Status::kBlocked)
      << "carol may, and alice has to ask";
}

TEST_F(BoundaryTest, ACallFromInsideDoesNotNameAnothersProgram) {
  open();
  const std::string session = sessionOf("alice");
  const std::string own = execAs(as("alice"), session, {"hold"})->id;
  const auto call = [&] { return *execAs(as("alice"), session, {"echo", "x"}, true); };
  const model::Execution before = call();
  EXPECT_EQ(before.parent_id, own);
  runUntil([&] { return model::isTerminal(stored(before.id).status); });
  ASSERT_TRUE(execAs(above("bob"), session, {"hold"}));
  const model::Execution after = call();
  EXPECT_EQ(after.parent_id, "") << "the program that began last is bob's";
  EXPECT_EQ(after.depth, 1U);
}

TEST_F(BoundaryTest, WhoWaitsForAnApprovalHasRunNothingThere) {
  open();
  give("alice", "build");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  policy_.set(*policy::parsePolicy(
      "version: 2\n"
      "rules:\n"
      "  - {name: all, why: for tests, effect: allow, match: {agents: [alice]}, runtime: process,\n"
      "     image: host}\n"
      "  - {name: watched, why: a person looks first, effect: approve, match: {agents: [carol]},\n"
      "     approve: {roles: [approver]}}\n",
      "test", model::defaultBounds().max));
  ASSERT_EQ(execAs(above("carol"), session, {"hold"})->status, Status::kBlocked);
  EXPECT_NE(execAs(as("alice"), session, {"git", "push", "x"}, true)->status, Status::kDenied);
}

TEST_F(BoundaryTest, SoManyAgentsVisitASessionAsMayRunProgramsInIt) {
  session_config_.max_execs = 2;
  open();
  const std::string session = sessionOf("alice");
  const auto ran = [&](const model::Principal& who) {
    const auto run = execAs(who, session, {"echo", "x"});
    ASSERT_TRUE(run) << run.error().message;
    runUntil([&] { return sessions_->get(as("alice"), session)->running == 0; });
  };
  ran(above("one"));
  ran(above("two"));
  const auto refused = execAs(above("three"), session, {"echo", "x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict) << "to try again does not help";
  EXPECT_THAT(refused.error().message, HasSubstr("session.max_execs"));
  ran(above("two"));
  ran(as("alice"));
}

TEST_F(BoundaryTest, NoSnapshotOfMemoryKeepsWhatAVisitorLeftBehind) {
  open();
  const std::string session = sessionOf("alice");
  ASSERT_TRUE(execAs(above("bob"), session, {"hold"}));
  const auto refused = await(sessions_->save(as("alice"), session, true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("take one without memory"));
  EXPECT_TRUE(await(sessions_->save(as("alice"), session, false)));
}

TEST_F(BoundaryTest, WhoseRulesBecomeStricterIsStoppedThere) {
  config_.rules_every = Millis(1);
  open();
  give("alice", "build");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  const std::string apart = sessionOf("alice");
  const std::string untouched = execAs(as("alice"), apart, {"hold"})->id;
  const std::string visit = execAs(above("carol"), session, {"hold"})->id;
  give("carol", "look");
  runUntil([&] { return model::isTerminal(stored(visit).status); });
  EXPECT_EQ(stored(visit).error->details.at("reason"), "revoked");
  EXPECT_THAT(auditOf(visit), Contains("execution.revoked"));
  EXPECT_EQ(stored(untouched).status, Status::kRunning) << "where she ran nothing";
}

// Processes left by an ended program go with the sandbox.
TEST_F(BoundaryTest, WhatAVisitorLeftBehindEndsWhenItsRulesBecomeStricter) {
  config_.rules_every = Millis(1);
  open();
  give("alice", "build");
  give("carol", "same");
  const std::string session = sessionOf("alice");
  const std::string visit = execAs(above("carol"), session, {"echo", "x"})->id;
  runUntil([&] { return model::isTerminal(stored(visit).status); });
  const auto push = [&] { return execAs(as("alice"), session, {"git", "push", "x"}, true); };
  EXPECT_EQ(push()->status, Status::kDenied);
  give("carol", "look");
  const auto applied = [&] {
    const auto rows = auditOf(session);
    return std::ranges::find(rows, "session.rules_applied") != rows.end();
  };
  runUntil(applied);
  EXPECT_EQ(fake_->provisioned().size(), 2U);
  runUntil([&] { return execAs(as("alice"), session, {"echo", "x"}).has_value(); });
  EXPECT_NE(push()->status, Status::kDenied) << "nothing of hers is there any more";
}

}  // namespace
}  // namespace cloister::orchestrator
