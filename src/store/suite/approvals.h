// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: executions that wait for an escalation and then continue.
#pragma once

#include "base/crypto.h"
#include "store/rows/escalation_rows.h"
#include "store/suite/escalations.h"

namespace cloister::store {

TEST_P(StoreSuite, ABlockedExecutionAndItsEscalationAreOne) {
  NewExecution request = queued();
  request.execution.status = model::Status::kBlocked;
  request.execution.error = model::RunError{"APPROVAL_REQUIRED", "ask", {}, false};
  request.escalation = wanted("acme", request.execution.id);
  const auto accepted = accept(*store_, request);
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_EQ(accepted->execution.error->details.at("escalation_id"), "ESC-2026-001");
  EXPECT_EQ(store_->get(all_, request.execution.id)->error->message, "ask (ESC-2026-001)");
  const auto found = store_->escalations().ofExecution(of("acme"), request.execution.id);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id, "ESC-2026-001");
  EXPECT_FALSE(store_->escalations().ofExecution(of("other"), request.execution.id)->has_value());
  const auto pending = store_->escalations().pending(of("acme"), request.execution.id);
  ASSERT_TRUE(pending) << "what it will run is kept";
  EXPECT_EQ(pending->spec, request.spec);
  EXPECT_EQ(pending->request_json, request.request_json);
  EXPECT_FALSE(store_->escalations().pending(of("other"), request.execution.id));
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, WhatAnEscalationAsksForIsKept) {
  NewEscalation asked = wanted();
  asked.request_json = R"json({"code":"print(1)"})json";
  asked.escalation.request_sha256 = base::sha256Hex(asked.request_json);
  const auto made = add(*store_, asked);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*store_->escalations().request(*made), asked.request_json);
  NewExecution run = queued();
  run.execution.status = model::Status::kBlocked;
  run.escalation = wanted("acme", run.execution.id);
  run.escalation->escalation.request_sha256 = base::sha256Hex(run.request_json);
  accept(*store_, run);
  auto of_run = **store_->escalations().ofExecution(of("acme"), run.execution.id);
  EXPECT_EQ(*store_->escalations().request(of_run), run.request_json) << "its execution's";
  of_run.request_sha256 = "other";
  EXPECT_EQ(store_->escalations().request(of_run).error().code, Code::kConflict);
  of_run.id = "ESC-2026-999";
  of_run.execution_id = "";
  EXPECT_EQ(store_->escalations().request(of_run).error().code, Code::kNotFound);
}

TEST_P(StoreSuite, WhatAWorkspaceHadInItIsKept) {
  NewExecution run = queued();
  run.execution.status = model::Status::kBlocked;
  run.escalation = wanted("acme", run.execution.id);
  run.escalation->workspace_json = R"json({"names":[]})json";
  run.escalation->escalation.request_sha256 = base::sha256Hex(run.request_json);
  run.escalation->escalation.workspace_sha256 = base::sha256Hex(run.escalation->workspace_json);
  accept(*store_, run);
  auto asked = **store_->escalations().ofExecution(of("acme"), run.execution.id);
  EXPECT_EQ(*store_->escalations().workspace(asked), run.escalation->workspace_json);
  EXPECT_EQ(*store_->escalations().request(asked), run.request_json);
  asked.workspace_sha256 = "other";
  EXPECT_EQ(store_->escalations().workspace(asked).error().code, Code::kConflict);
  const auto without = add(*store_, wanted());
  EXPECT_EQ(store_->escalations().workspace(*without).error().code, Code::kNotFound);
}

TEST_P(StoreSuite, AnApprovalIsUsedWithTheExecutionOrNotAtAll) {
  NewExecution request = queued();
  request.execution.status = model::Status::kBlocked;
  request.escalation = wanted("acme", request.execution.id);
  model::Execution execution = accept(*store_, request)->execution;
  const model::Escalation e = **store_->escalations().ofExecution(of("acme"), execution.id);
  const auto use = [&] {
    execution.status = model::Status::kQueued;
    return commit(*store_, changeEscalationWith, to(e, model::EscalationStatus::kUsed), execution,
                  testing::event("execution.resumed", execution));
  };
  EXPECT_FALSE(use()) << "it is not approved";
  EXPECT_EQ(store_->get(all_, execution.id)->status, model::Status::kBlocked);
  ASSERT_TRUE(change(*store_, to(e, model::EscalationStatus::kApproved)));
  ASSERT_TRUE(use());
  EXPECT_EQ(store_->get(all_, execution.id)->status, model::Status::kQueued);
  EXPECT_FALSE(use()) << "once";
  EXPECT_TRUE(store_->escalations().mismatches(0, 10)->empty());
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, AnExecutionThatUsesAnApprovalNeedsIt) {
  const auto e = add(*store_, wanted());
  ASSERT_TRUE(change(*store_, to(*e, model::EscalationStatus::kApproved)));
  NewExecution request = queued();
  request.approval = to(*e, model::EscalationStatus::kUsed);
  ASSERT_TRUE(accept(*store_, request));
  NewExecution replay = queued();
  replay.approval = to(*e, model::EscalationStatus::kUsed);
  ASSERT_FALSE(accept(*store_, replay));
  EXPECT_EQ(store_->get(all_, replay.execution.id).error().code, Code::kNotFound);
}

}  // namespace cloister::store
