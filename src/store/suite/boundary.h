// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: isolation between agents of one tenant.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/rows/memory.h"
#include "store/session_testing.h"
#include "store/suite/artifacts.h"
#include "store/suite/escalations.h"
#include "store/suite/snapshots.h"

namespace cloister::store {

// One object of every kind, made by an agent of "acme".
struct MadeBy {
  std::string execution;
  std::string artifact;  // artifact of the execution
  std::string session;
  std::string upload;
  std::string snapshot;
  std::string escalation;
};

inline MadeBy makeAllAs(Store& store, const std::string& agent) {
  MadeBy made;
  NewExecution run = queued("acme", agent);
  run.execution.session_id = "ses_shared";
  model::Execution e = accept(store, run).value().execution;
  made.execution = e.id;
  e.status = model::Status::kRunning;
  EXPECT_TRUE(update(store, e));
  e.status = model::Status::kCompleted;
  made.artifact = "art_of_" + agent;
  e.artifacts = {
      {.id = made.artifact, .path = "f", .size = 1, .content_type = "text/plain", .sha256 = agent}};
  EXPECT_TRUE(update(store, e));
  made.session = create(store, newSession("acme", agent)).value().session.id;
  made.upload = "art_up_" + agent;
  model::Artifact artifact = upload(made.upload, "acme", 1, agent + "'s");
  artifact.agent = agent;
  EXPECT_TRUE(addTo(store, artifact));
  NewSnapshot snapshot = snapshotOf("snap_" + agent, {});
  snapshot.snapshot.agent = agent;
  made.snapshot = addTo(store, snapshot).value().id;
  NewEscalation asked = wanted("acme", e.id);
  asked.escalation.requester.agent = agent;
  made.escalation = add(store, asked).value().id;
  return made;
}

inline Scope scopeOf(const std::string& agent, model::Roles roles = model::Role::kAgent) {
  model::Principal who = principal("acme", agent);
  who.roles = roles;
  return Scope::of(who);
}

inline std::vector<Code> lookAt(Store& store, const Scope& scope, const MadeBy& all) {
  const auto code = [](const auto& result) {
    return result ? Code::kInternal : result.error().code;  // kInternal: the object is visible
  };
  return {code(store.get(scope, all.execution)),
          code(store.recorded(scope, all.execution)),
          code(store.artifact(scope, all.artifact)),
          code(store.session(scope, all.session)),
          code(store.artifact(scope, all.upload)),
          code(store.snapshot(scope, all.snapshot)),
          code(store.escalations().get(scope, all.escalation)),
          code(store.memory().list(scope, {.session = all.session}))};
}

inline std::vector<size_t> countAll(Store& store, const Scope& scope) {
  ListQuery of_session;
  of_session.session_id = "ses_shared";
  ListQuery done;
  done.status = model::Status::kCompleted;
  ListQuery of_alice;
  of_alice.agent = "alice";
  SessionQuery making;
  making.status = model::SessionStatus::kCreating;
  EscalationQuery pending;
  pending.status = model::EscalationStatus::kPending;
  return {store.list(scope, {})->size(),
          store.list(scope, of_session)->size(),
          store.list(scope, done)->size(),
          store.list(scope, of_alice)->size(),
          store.sessions(scope, {})->size(),
          store.sessions(scope, making)->size(),
          store.artifacts(scope, {})->size(),
          store.snapshots(scope, {})->size(),
          store.escalations().list(scope, {})->size(),
          store.escalations().list(scope, pending)->size()};
}

TEST_P(StoreSuite, WhatAnotherAgentMadeIsNotThere) {
  using enum model::Role;
  const MadeBy alices = makeAllAs(*store_, "alice");
  makeAllAs(*store_, "");
  const std::vector<Code> none(8, Code::kNotFound);
  const std::vector<Code> there(8, Code::kInternal);
  EXPECT_EQ(lookAt(*store_, scopeOf("alice"), alices), there);
  EXPECT_EQ(lookAt(*store_, scopeOf("bob"), alices), none);
  EXPECT_EQ(lookAt(*store_, scopeOf(""), alices), none) << "no agent is an agent of its own";
  EXPECT_EQ(lookAt(*store_, scopeOf("bob", {}), alices), none) << "without a role";
  using Counts = std::vector<size_t>;
  EXPECT_EQ(countAll(*store_, scopeOf("alice")), (Counts{1, 1, 1, 1, 1, 1, 2, 1, 1, 1}));
  EXPECT_EQ(countAll(*store_, scopeOf("")), (Counts{1, 1, 1, 0, 1, 1, 2, 1, 1, 1}));
  EXPECT_EQ(countAll(*store_, scopeOf("bob")), Counts(10, 0));
  for (const model::Role role : {kViewer, kOperator, kApprover, kTenantAdmin}) {
    const Scope above = scopeOf("bob", role);
    EXPECT_EQ(lookAt(*store_, above, alices), there) << model::roleName(role);
    EXPECT_EQ(countAll(*store_, above), (Counts{2, 2, 2, 1, 2, 2, 4, 2, 2, 2}));
  }
  EXPECT_EQ(countAll(*store_, Scope::ofTenant("acme")), countAll(*store_, all_));
  EXPECT_EQ(countAll(*store_, Scope::ofTenant("rival")), Counts(10, 0));
}

TEST_P(StoreSuite, AnotherAgentChangesNothing) {
  const MadeBy alices = makeAllAs(*store_, "alice");
  const Scope bob = scopeOf("bob");
  EXPECT_EQ(removeFrom(*store_, bob, alices.upload).error().code, Code::kNotFound);
  EXPECT_EQ(removeSnapshotFrom(*store_, bob, alices.snapshot).error().code, Code::kNotFound);
  const auto put =
      commit(*store_, putMemory, bob, {.session = alices.session, .key = "k", .json = "1", .at = 1},
             {}, about(alices.session));
  EXPECT_EQ(put.error().message, "there is no session " + alices.session);
  EXPECT_EQ(lookAt(*store_, scopeOf("alice"), alices), std::vector<Code>(8, Code::kInternal));
}

}  // namespace cloister::store
