// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: sessions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "store/session_testing.h"

namespace cloister::store {

TEST_P(StoreSuite, ASessionIsStoredWithItsAuditRow) {
  const NewSession request = newSession();
  const auto created = create(*store_, request);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_FALSE(created->replayed);
  EXPECT_EQ(created->session.seq, 1U);
  model::Session running = created->session;
  running.status = SessionStatus::kRunning;
  running.provenance.node = "n1";
  running.provenance.weakened = {"all"};
  ASSERT_TRUE(update(*store_, running));
  const auto got = store_->session(all_, request.session.id);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(model::toJsonObject(*got), model::toJsonObject(running));
  EXPECT_EQ(got->seq, 1U);
  EXPECT_EQ(got->limits, running.limits);
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].event.subject, request.session.id);
  EXPECT_EQ(entries[0].event.details.at("status"), "creating");
  EXPECT_EQ(entries[1].event.details.at("status"), "running");
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

TEST_P(StoreSuite, ASessionMovesOnlyForward) {
  constexpr std::array kAll = {SessionStatus::kCreating, SessionStatus::kRunning,
                               SessionStatus::kEnded};
  for (const SessionStatus from : kAll) {
    for (const SessionStatus to : kAll) {
      const model::Session s = create(*store_, newSession()).value().session;
      if (from != SessionStatus::kCreating) ASSERT_TRUE(update(*store_, s, from));
      const size_t before = auditAll().size();
      const auto moved = update(*store_, s, to);
      const bool may = model::mayBecome(from, to);
      EXPECT_EQ(moved.has_value(), may) << model::statusName(from) << model::statusName(to);
      if (!moved) EXPECT_EQ(moved.error().code, Code::kConflict);
      EXPECT_EQ(store_->session(all_, s.id)->status, may ? to : from);
      EXPECT_EQ(auditAll().size(), before + (may ? 1 : 0));
    }
  }
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

TEST_P(StoreSuite, ABlockedSessionKeepsItsRequestUntilItGoesOn) {
  NewSession request = newSession();
  request.session.status = SessionStatus::kBlocked;
  request.session.error = model::RunError{"APPROVAL_REQUIRED", "it waits", {}, false};
  const model::Session s = create(*store_, request).value().session;
  EXPECT_EQ(store_->unfinishedSessions()->size(), 1U);
  EXPECT_FALSE(store_->pendingSession(all_, s.id)) << "its audit row has no digest of the request";
  EXPECT_EQ(update(*store_, s, SessionStatus::kRunning).error().code, Code::kConflict);
  ASSERT_TRUE(update(*store_, s, SessionStatus::kCreating));
  EXPECT_EQ(store_->pendingSession(all_, s.id).error().code, Code::kNotFound);
  EXPECT_EQ(update(*store_, s, SessionStatus::kBlocked).error().code, Code::kConflict);
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

TEST_P(StoreSuite, ASessionKeepsWhoMadeItAndWhenAndGetsAnEnd) {
  const model::Session s = create(*store_, newSession("acme")).value().session;
  model::Session forged = s;
  forged.principal.tenant = "rival";
  forged.created_at = 1;
  forged.status = SessionStatus::kEnded;
  forged.end = model::RunError{"TIMEOUT", "it expired", {{"ttl", "idle"}}, false};
  ASSERT_TRUE(update(*store_, forged));
  const auto read = store_->session(Scope::of(principal("acme")), s.id);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->created_at, s.created_at);
  EXPECT_GT(read->ended_at, 0);
  ASSERT_TRUE(read->end);
  EXPECT_EQ(read->end->message, "it expired");
  EXPECT_EQ(read->end->details.at("ttl"), "idle");
  EXPECT_EQ(update(*store_, newSession().session, SessionStatus::kEnded).error().code,
            Code::kNotFound);
}

TEST_P(StoreSuite, SessionsOfAnotherTenantAreNotThere) {
  const model::Session s = create(*store_, newSession("acme")).value().session;
  const Scope rival = Scope::of(principal("rival"));
  EXPECT_EQ(store_->session(rival, s.id).error().code, Code::kNotFound);
  EXPECT_TRUE(store_->sessions(rival, {})->empty());
  EXPECT_TRUE(store_->session(Scope::of(principal("acme")), s.id));
  EXPECT_TRUE(store_->session(Scope::of(admin()), s.id));
}

TEST_P(StoreSuite, ASessionsIdempotencyKeyGivesTheEarlierOne) {
  NewSession request = newSession();
  request.idempotency_key = "k";
  const auto first = create(*store_, request);
  ASSERT_TRUE(first);
  NewSession again = newSession();
  again.idempotency_key = "k";
  const auto second = create(*store_, again);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->replayed);
  EXPECT_EQ(second->session.id, first->session.id);
  again.request_json = "{}";
  EXPECT_EQ(create(*store_, again).error().code, Code::kConflict);
  again.session.principal = principal("rival");
  EXPECT_FALSE(create(*store_, again)->replayed);
  EXPECT_EQ(auditAll().size(), 2U);
}

TEST_P(StoreSuite, ListsSessionsAndThoseThatHaveNotEnded) {
  std::vector<std::string> open;
  for (int i = 0; i < 7; ++i) {
    const NewSession request = newSession("acme", i % 2 == 0 ? "even" : "odd");
    const model::Session s = create(*store_, request).value().session;
    if (i < 3) {
      ASSERT_TRUE(update(*store_, s, SessionStatus::kEnded));
    } else {
      open.push_back(s.id);
    }
  }
  const auto unfinished = store_->unfinishedSessions();
  ASSERT_EQ(unfinished->size(), open.size());
  for (size_t i = 0; i < open.size(); ++i)
    EXPECT_EQ((*unfinished)[i].id, open[i]);
  SessionQuery query;
  query.status = SessionStatus::kEnded;
  EXPECT_EQ(store_->sessions(all_, query)->size(), 3U);
  query.agent = "odd";
  EXPECT_EQ(store_->sessions(all_, query)->size(), 1U);
  std::vector<uint64_t> seen;
  SessionQuery three;
  three.limit = 3;
  for (;;) {
    const auto page = store_->sessions(all_, three);
    if (page->empty()) break;
    for (const auto& s : *page)
      seen.push_back(s.seq);
    three.before_seq = page->back().seq;
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{7, 6, 5, 4, 3, 2, 1}));
}

TEST_P(StoreSuite, EndedSessionsGoWithTime) {
  const model::Session kept = create(*store_, newSession()).value().session;
  model::Session old = create(*store_, newSession()).value().session;
  old.status = SessionStatus::kEnded;
  old.ended_at = 1'700'000'001'000'000;
  ASSERT_TRUE(update(*store_, old));
  Retention rules;
  rules.archive_after_us = 1;
  EXPECT_EQ(testing::retain(*store_, rules)->sessions, 0U);
  rules.delete_after_us = 1'000'000;
  EXPECT_EQ(testing::retain(*store_, rules)->sessions, 1U);
  EXPECT_EQ(store_->session(all_, old.id).error().code, Code::kNotFound);
  EXPECT_TRUE(store_->session(all_, kept.id));
  EXPECT_EQ(auditAll().back().event.action, "ledger.retained");
}

}  // namespace cloister::store
