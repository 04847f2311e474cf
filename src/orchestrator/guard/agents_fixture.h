// SPDX-License-Identifier: Apache-2.0
// For tests of the guard: agents with sandboxes at levels of their own, and approvals.
#pragma once

#include <gmock/gmock.h>

#include "base/file.h"
#include "orchestrator/governance/escalations.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/sessions/session_fixture.h"
#include "store/rows/agents.h"
#include "store/rows/escalation_rows.h"
#include "store/store_testing.h"

namespace cloister::orchestrator {

inline constexpr std::string_view kGuardLevels = R"(
version: 1
lowering:
  - {from: build, to: look, after: 2, within_minutes: 60, why: a test}
sandbox_levels:
  build:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_commands: [{pattern: "sudo *", why: a test, mitigation: without sudo}]
      dangerous_patterns: [{pattern: "doas *", risk: privileged, outcome: escalate, why: a test}]
      forbidden_paths: [{path: "/workspace/secrets/*", why: a test}]
      allowed_file_operations: [read, write, create]
      project_code: allow
    resource_limits: {max_memory_mb: 512, max_cpu_percentage: 50, max_execution_time_minutes: 1}
  look:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{pattern: "echo *", why: a test}]
      allowed_file_operations: [read]
  careful:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{pattern: "echo *", why: a test}]
    escalation_policy:
      auto_approve_safe_operations: true
      require_human_approval: [command_execution]
  reads:
    description: for tests
    why: a test
    permissions:
      allowed_commands: [{builtin: read_only, why: a test}]
safe_operations:
  - {operation: command_execution, level: reads, why: a test}
)";

class AgentsTest : public SessionsTest {
 protected:
  void openGuarded(const std::string& default_level = "") {
    default_level_ = default_level;
    open();
  }
  AgentGuard* guard() override {
    guard_ = std::make_unique<AgentGuard>(*store_, levels_, languages_, default_level_);
    return guard_.get();
  }
  void give(const std::string& level, const std::string& tenant = "acme") {
    model::AgentSandbox sandbox;
    sandbox.tenant = tenant;
    sandbox.agent = "agent";
    sandbox.level = level;
    sandbox.escalation = escalation_;
    sandbox.revoked_operations = revoked_;
    sandbox.created_at = 1;
    const auto known = agent(tenant);
    const uint64_t version = known ? known->version : 0;
    std::optional<bool> done;
    store_->write(store::writing(store::putAgent, store::Scope::allTenants(), sandbox, version, 10,
                                 {.action = "agent.updated",
                                  .subject = "agent:" + tenant + "/agent",
                                  .principal = principal(),
                                  .details = {}}),
                  [this, &done](Result<model::AgentSandbox> stored) {
                    boost::asio::post(*io_, [&done, ok = stored.has_value()] { done = ok; });
                  });
    const auto work = boost::asio::make_work_guard(*io_);
    runUntil([&] { return done.has_value(); });
    ASSERT_TRUE(*done);
  }
  // Makes an escalation valid for so many seconds; gives its id.
  std::string approve(const std::string& operation, const std::string& subject, int seconds = 60,
                      const std::string& tenant = "acme", const std::string& agent = "agent",
                      bool automatic = false) {
    store::NewEscalation asked;
    asked.escalation.operation = operation;
    asked.escalation.subject = subject;
    asked.escalation.requester = principal(tenant);
    asked.escalation.requester.agent = agent;
    asked.escalation.expires_at = base::wallMicros() + 1'000'000;
    asked.escalation.grant_expires_at = base::wallMicros() + (int64_t{1'000'000} * seconds);
    asked.event = {.action = "escalation.requested",
                   .subject = "",
                   .principal = asked.escalation.requester,
                   .details = {}};
    const auto made = store::testing::commit(*store_, store::addEscalation, asked);
    becomes(made->id, model::EscalationStatus::kApproved, tenant, automatic);
    return made->id;
  }
  void becomes(const std::string& id, model::EscalationStatus status,
               const std::string& tenant = "acme", bool automatic = false) {
    store::EscalationChange change;
    change.tenant = tenant;
    change.id = id;
    change.apply = [status, automatic](model::Escalation& now) -> Result<model::AuditEvent> {
      now.status = status;
      now.decisions.push_back({.by = {},
                               .person = "",
                               .approve = status == model::EscalationStatus::kApproved,
                               .automatic = automatic,
                               .reason = "",
                               .at = 0});
      return model::AuditEvent{.action = "escalation.changed",
                               .subject = now.id,
                               .principal = now.requester,
                               .details = {}};
    };
    ASSERT_TRUE(store::testing::commit(*store_, store::changeEscalation, change));
  }
  Result<model::AgentSandbox> agent(const std::string& tenant = "acme") {
    return store_->agents().sandbox(store::Scope::allTenants(), {tenant, "agent"});
  }
  std::vector<model::Violation> violations() {
    return *store_->agents().violations(store::Scope::allTenants(), {.of = {"acme", "agent"}});
  }

  policy::Levels levels_ = policy::parseLevels(kGuardLevels, "test").value();
  std::string default_level_;
  model::AgentEscalation escalation_;
  std::vector<std::string> revoked_;
  std::unique_ptr<AgentGuard> guard_;
};

}  // namespace cloister::orchestrator
