// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: sandboxes of agents and their violations.
#pragma once

#include "base/clock.h"
#include "base/id.h"
#include "store/agent_store.h"
#include "store/rows/agents.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline model::AgentSandbox agentSandbox(const std::string& tenant, const std::string& agent) {
  model::AgentSandbox sandbox;
  sandbox.tenant = tenant;
  sandbox.agent = agent;
  sandbox.level = "standard";
  sandbox.created_by = "test";
  sandbox.created_at = sandbox.last_modified = base::wallMicros();
  return sandbox;
}
inline Result<model::AgentSandbox> put(Store& store, const model::AgentSandbox& sandbox,
                                       uint64_t expected, const Scope& scope = Scope::allTenants(),
                                       uint64_t most = 100) {
  return commit(store, putAgent, scope, sandbox, expected, most,
                {.action = "agent.updated",
                 .subject = agentSubject({sandbox.tenant, sandbox.agent}),
                 .principal = admin(),
                 .details = {}});
}
inline Result<AfterViolation> violate(Store& store, const std::string& tenant,
                                      const std::string& agent, std::vector<Lowering> rules = {},
                                      int64_t at = base::wallMicros(),
                                      std::string outcome = "unsafe_command") {
  model::Violation v;
  v.id = base::newId("vio");
  v.tenant = tenant;
  v.agent = agent;
  v.at = at;
  v.level = "standard";
  v.operation = "command_execution";
  v.what = "sudo ls";
  v.outcome = std::move(outcome);
  v.rule = "sudo *";
  v.reason = "a test";
  v.words = "sudo";
  v.subject = "exec_1";
  model::Principal by = principal(tenant);
  by.agent = agent;
  return commit(store, addViolation, v, std::move(rules), by);
}

TEST_P(StoreSuite, AgentSandboxesAreKeptWhole) {
  model::AgentSandbox sandbox = agentSandbox("acme", "alice");
  sandbox.allowed_commands = {"cargo build"};
  sandbox.forbidden_paths = {"/etc/*"};
  sandbox.granted_operations = {"network"};
  sandbox.limits = {.memory_mb = 2048, .cpu_percent = 50, .time_seconds = 1800};
  sandbox.escalation.auto_approve_safe = true;
  sandbox.escalation.require_human_approval = std::vector<std::string>{"file_write"};
  sandbox.temporary_permissions = {{"file_write", "/workspace/a", 7, "ESC-2026-001"}};
  const auto stored = put(*store_, sandbox, 0);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->version, 1U);
  const auto found = store_->agents().sandbox(all_, {"acme", "alice"});
  ASSERT_TRUE(found);
  EXPECT_EQ(base::toJson(toRecord(*found)), base::toJson(toRecord(*stored)));
  EXPECT_EQ(auditAll().back().event.subject, "agent:acme/alice");
}

TEST_P(StoreSuite, AChangeToAnotherVersionIsRefused) {
  const model::AgentSandbox sandbox = agentSandbox("acme", "alice");
  ASSERT_TRUE(put(*store_, sandbox, 0));
  EXPECT_EQ(put(*store_, sandbox, 0).error().code, Code::kConflict);
  ASSERT_TRUE(put(*store_, sandbox, 1));
  const size_t rows = auditAll().size();
  EXPECT_EQ(put(*store_, sandbox, 1).error().code, Code::kConflict);
  EXPECT_EQ(put(*store_, agentSandbox("acme", "bob"), 0, all_, 1).error().code, Code::kQuota);
  EXPECT_EQ(auditAll().size(), rows) << "what did not happen is not told";
}

TEST_P(StoreSuite, AnotherTenantsAgentDoesNotExist) {
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "alice"), 0));
  ASSERT_TRUE(violate(*store_, "acme", "alice"));
  const Scope rival = Scope::of(testing::principal("rival"));
  AgentStore& agents = store_->agents();
  const auto other = agents.sandbox(rival, {"acme", "alice"});
  const auto none = agents.sandbox(rival, {"rival", "alice"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kNotFound);
  EXPECT_EQ(other.error().message, none.error().message);
  EXPECT_TRUE(agents.sandboxes(rival, {})->empty());
  EXPECT_TRUE(agents.violations(rival, {.of = {"acme", "alice"}})->empty());
  EXPECT_TRUE(agents.audit(rival, {.of = {"acme", "alice"}})->empty());
  EXPECT_EQ(agents.stats(rival, {"acme", "alice"})->violations, 0U);
  EXPECT_EQ(put(*store_, agentSandbox("acme", "alice"), 2, rival).error().code, Code::kNotFound);
  const auto removed = commit(*store_, removeAgent, rival, {"acme", "alice"}, {});
  EXPECT_EQ(removed.error().code, Code::kNotFound);
  const Scope own = Scope::of(testing::principal("acme", "alice"));
  EXPECT_EQ(agents.violations(own, {.of = {"acme", "alice"}})->size(), 1U);
}

TEST_P(StoreSuite, AnotherAgentsSandboxDoesNotExist) {
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "alice"), 0));
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "bob"), 0));
  ASSERT_TRUE(violate(*store_, "acme", "alice"));
  AgentStore& agents = store_->agents();
  const Scope bob = Scope::of(testing::principal("acme", "bob"));
  EXPECT_EQ(agents.sandbox(bob, {"acme", "alice"}).error().code, Code::kNotFound);
  EXPECT_TRUE(agents.sandbox(bob, {"acme", "bob"}));
  EXPECT_EQ(agents.sandboxes(bob, {})->size(), 1U);
  EXPECT_TRUE(agents.violations(bob, {.of = {"acme", "alice"}})->empty());
  EXPECT_TRUE(agents.audit(bob, {.of = {"acme", "alice"}})->empty());
  EXPECT_EQ(agents.stats(bob, {"acme", "alice"})->violations, 0U);
  EXPECT_EQ(put(*store_, agentSandbox("acme", "alice"), 2, bob).error().code, Code::kNotFound);
}

TEST_P(StoreSuite, ViolationsCountAndLowerTheLevel) {
  const std::vector<Lowering> rules = {{.from = "standard",
                                        .to = "restricted",
                                        .after = 3,
                                        .within_us = 1'000'000,
                                        .why = "a test"}};
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "alice"), 0));
  const int64_t now = base::wallMicros();
  ASSERT_TRUE(violate(*store_, "acme", "alice", rules, now - 5'000'000)) << "long ago";
  ASSERT_TRUE(violate(*store_, "acme", "alice", rules, now));
  auto after = violate(*store_, "acme", "alice", rules, now + 1);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->sandbox->level, "standard");
  after = violate(*store_, "acme", "alice", rules, now + 2);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->lowered_from, "standard");
  EXPECT_EQ(after->sandbox->level, "restricted");
  EXPECT_EQ(after->sandbox->violation_count, 4U);
  EXPECT_EQ(auditAll().back().event.action, "agent.lowered");
  EXPECT_EQ(store_->agents().sandbox(all_, {"acme", "alice"})->level, "restricted");
  // A raised level starts a new count.
  model::AgentSandbox raised = *after->sandbox;
  raised.level = "standard";
  raised.level_since = now + 3;
  ASSERT_TRUE(put(*store_, raised, raised.version));
  EXPECT_EQ(violate(*store_, "acme", "alice", rules, now + 4)->sandbox->level, "standard");
  EXPECT_FALSE(violate(*store_, "acme", "nobody")->sandbox) << "it has none to lower";
}

TEST_P(StoreSuite, WhatAnotherAgentsRulesRefuseIsRecordedAndNotCounted) {
  const std::vector<Lowering> rules = {{.from = "standard",
                                        .to = "restricted",
                                        .after = 1,
                                        .within_us = 1'000'000,
                                        .why = "a test"}};
  const std::string boundary(model::Violation::kBoundary);
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "alice"), 0));
  const int64_t now = base::wallMicros();
  ASSERT_TRUE(violate(*store_, "acme", "alice", rules, now, boundary));
  EXPECT_EQ(store_->agents().sandbox(all_, {"acme", "alice"})->level, "standard");
  EXPECT_EQ(store_->agents().sandbox(all_, {"acme", "alice"})->violation_count, 0U);
  EXPECT_EQ(auditAll().back().event.action, "agent.violation");
  EXPECT_EQ(store_->agents().violations(all_, {.of = {"acme", "alice"}})->size(), 1U);
  EXPECT_EQ(store_->agents().stats(all_, {"acme", "alice"})->violations, 0U);
  EXPECT_EQ(store_->agents().stats(all_, {"acme", "alice"})->last_violation, 0);
  std::vector<Lowering> two = rules;
  two[0].after = 2;
  EXPECT_EQ(violate(*store_, "acme", "alice", two, now + 1)->sandbox->level, "standard")
      << "the earlier one does not count for a later one either";
  EXPECT_EQ(violate(*store_, "acme", "alice", two, now + 2)->sandbox->level, "restricted");
}

TEST_P(StoreSuite, ViolationsAndAuditArePaged) {
  ASSERT_TRUE(put(*store_, agentSandbox("acme", "alice"), 0));
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(violate(*store_, "acme", "alice"));
  ASSERT_TRUE(violate(*store_, "acme", "bob"));
  AgentStore& agents = store_->agents();
  const auto first = agents.violations(all_, {.of = {"acme", "alice"}, .limit = 3});
  ASSERT_EQ(first->size(), 3U);
  EXPECT_GT(first->at(0).seq, first->at(1).seq);
  EXPECT_EQ(first->at(0).words, "sudo");
  const auto rest = agents.violations(
      all_, {.of = {"acme", "alice"}, .limit = 3, .before_seq = first->at(2).seq});
  EXPECT_EQ(rest->size(), 2U);
  const auto audit = agents.audit(all_, {.of = {"acme", "alice"}, .limit = 4});
  ASSERT_EQ(audit->size(), 4U);
  EXPECT_EQ(
      agents.audit(all_, {.of = {"acme", "alice"}, .before_seq = audit->back().position})->size(),
      2U)
      << "each once, the change by another principal too";
  EXPECT_TRUE(agents.audit(all_, {.of = {"acme", "alice"}, .since = INT64_MAX})->empty());
  const auto stats = agents.stats(all_, {"acme", "alice"});
  EXPECT_EQ(stats->violations, 5U);
  EXPECT_GT(stats->last_violation, 0);
}

TEST_P(StoreSuite, AgentsAreListedByName) {
  for (const char* name : {"c", "a", "b"})
    ASSERT_TRUE(put(*store_, agentSandbox("acme", name), 0));
  ASSERT_TRUE(put(*store_, agentSandbox("other", "a"), 0));
  const auto first = store_->agents().sandboxes(all_, {.limit = 2});
  ASSERT_EQ(first->size(), 2U);
  EXPECT_EQ(first->at(0).agent, "a");
  const auto rest = store_->agents().sandboxes(
      all_, {.limit = 5, .after = {first->at(1).tenant, first->at(1).agent}});
  ASSERT_EQ(rest->size(), 2U);
  EXPECT_EQ(rest->at(1).tenant, "other");
  EXPECT_EQ(store_->agents().sandboxes(all_, {.tenant = "other"})->size(), 1U);
}

}  // namespace cloister::store
