// SPDX-License-Identifier: Apache-2.0
// For tests: runs that wait for approval, over the real ledger and the fake runtime.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/governance/escalations.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/service_fixture.h"
#include "store/sql/raw_testing.h"

namespace cloister::orchestrator {

using model::Escalation;
using model::EscalationStatus;
using model::Status;

class BlockingTest : public ServiceTest {
 protected:
  BlockingTest() { wants("{roles: [approver]}"); }
  ~BlockingTest() override { shut(); }

  void wants(const std::string& approve) {
    policy_.set(*policy::parsePolicy(
        "version: 2\n"
        "rules:\n"
        "  - {name: no-evil, why: not trusted, effect: deny, match: {tenants: [evil]}}\n"
        "  - {name: watched, why: a person looks first, effect: approve, approve: " +
            approve + "}\n",
        "test", model::defaultBounds().max));
  }
  void start(bool with_node = true) {
    open(with_node);
    escalations_ = std::make_unique<EscalationService>(control_, service_->approvals(), agents_);
  }
  void shut() {
    escalations_.reset();
    close();
  }
  void restart(bool with_node = true) {
    shut();
    start(with_node);
  }

  static model::Principal approver(const std::string& user = "boss",
                                   const std::string& tenant = "acme") {
    return {.tenant = tenant,
            .app = "",
            .agent = "",
            .user = user,
            .roles = model::Role::kApprover,
            .key_id = "key_of_" + user};
  }
  Result<Escalation> vote(const model::Principal& by, const std::string& id, bool approve = true) {
    return await(escalations_->decide(by, "", id, approve, {.reason = "why", .approver = ""}));
  }
  Escalation escalation(const std::string& id) { return *escalations_->get(approver(), "", id); }
  static std::string idIn(const model::Execution& execution) {
    return execution.error && execution.error->details.contains("escalation_id")
               ? std::string(execution.error->details.at("escalation_id").get_string())
               : "";
  }
  model::Execution blocked(std::vector<std::string> argv = {"echo", "hello"}) {
    const auto execution = run(std::move(argv));
    EXPECT_TRUE(execution) << execution.error().message;
    EXPECT_EQ(execution->status, Status::kBlocked);
    return *execution;
  }
  // Runs a request with an approval.
  Result<model::Execution> runWith(const std::string& approval, model::RunRequest request,
                                   const std::string& tenant = "acme") {
    request.approval = approval;
    return await(service_->run(principal(tenant), std::move(request), ""));
  }
  Result<Escalation> askFor(const model::RunRequest& request) {
    return await(escalations_->request(principal(), {.operation = "run",
                                                     .subject = "",
                                                     .reason = "a release",
                                                     .run = model::toJsonObject(request)}));
  }

  // A change by somebody with write access to the ledger's file.
  void inLedger(const char* sql) { store::testing::RawFile(dir_ + "/ledger.db").run(sql); }

  std::unique_ptr<EscalationService> escalations_;
};

// An agent held to the default level, whose rules may differ after a restart.
class BlockedAgentTest : public BlockingTest {
 protected:
  AgentGuard* guard() override {
    guard_ = std::make_unique<AgentGuard>(*store_, levels_, languages_, "only");
    return guard_.get();
  }
  void mayRun(const std::string& pattern, int memory_mb = 512) {
    levels_ = policy::parseLevels(
                  "version: 1\n"
                  "sandbox_levels:\n"
                  "  only:\n"
                  "    description: for tests\n"
                  "    why: a test\n"
                  "    permissions:\n"
                  "      allowed_commands: [{pattern: '" +
                      pattern +
                      "', why: a test}]\n"
                      "      project_code: allow\n"
                      "      allowed_file_operations: [read, write, create]\n"
                      "    resource_limits: {max_memory_mb: " +
                      std::to_string(memory_mb) + "}\n",
                  "test")
                  .value();
  }
  // A run accepted with `pattern`, and `then` in force at the approval.
  model::Execution approvedAfter(const std::string& then, int memory_mb = 512) {
    mayRun("*");
    start();
    const model::Execution held = blocked({"echo", "hello"});
    shut();
    mayRun(then, memory_mb);
    start();
    EXPECT_TRUE(vote(approver(), idIn(held)));
    return ended(held.id);
  }

  policy::Levels levels_;
  std::unique_ptr<AgentGuard> guard_;
};

}  // namespace cloister::orchestrator
