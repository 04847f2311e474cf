// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: escalations and their notifications.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/rows/escalation_rows.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline constexpr int64_t kIn2026 = 1'780'000'000'000'000;

inline NewEscalation wanted(const std::string& tenant = "acme", const std::string& execution = "") {
  NewEscalation asked;
  model::Escalation& e = asked.escalation;
  e.operation = "run";
  e.subject = "command ls\n\xff";
  e.reason = "because";
  e.requester = principal(tenant);
  e.requester_person = tenant + "/user:user";
  e.execution_id = execution;
  e.digest = "sha256:x";
  e.roles = {"approver"};
  e.created_at = kIn2026;
  e.expires_at = kIn2026 + 1000;
  asked.event = {.action = "escalation.requested",
                 .subject = "",
                 .principal = e.requester,
                 .details = {{"note", "x"}}};
  return asked;
}

inline Result<model::Escalation> add(Store& store, const NewEscalation& asked) {
  return commit(store, addEscalation, asked);
}

inline EscalationChange to(const model::Escalation& e, model::EscalationStatus status) {
  return {.tenant = e.requester.tenant,
          .id = e.id,
          .apply = [status](model::Escalation& now) -> Result<model::AuditEvent> {
            now.status = status;
            return model::AuditEvent{.action = "escalation.changed",
                                     .subject = now.id,
                                     .principal = now.requester,
                                     .details = {}};
          },
          .channels = {"webhook"},
          .notification = "settled"};
}

inline Result<model::Escalation> change(Store& store, const EscalationChange& what) {
  return commit(store, changeEscalation, what);
}

inline Scope of(const std::string& tenant) {
  return Scope::of(principal(tenant));
}

TEST_P(StoreSuite, EscalationsAreNumberedByTenantAndYear) {
  EXPECT_EQ(add(*store_, wanted())->id, "ESC-2026-001");
  EXPECT_EQ(add(*store_, wanted())->id, "ESC-2026-002");
  EXPECT_EQ(add(*store_, wanted("other"))->id, "ESC-2026-001");
  NewEscalation later = wanted();
  later.escalation.created_at = kIn2026 + int64_t{366} * 86'400 * 1'000'000;
  EXPECT_EQ(add(*store_, later)->id, "ESC-2027-001");
}

TEST_P(StoreSuite, AnEscalationIsStoredWhole) {
  const auto made = add(*store_, wanted());
  ASSERT_TRUE(made) << made.error().message;
  const auto got = store_->escalations().get(of("acme"), made->id);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->seq, made->seq);
  EXPECT_EQ(got->status, model::EscalationStatus::kPending);
  EXPECT_EQ(got->requester.agent, "agent");
  EXPECT_EQ(got->requester.key_id, "key_1");
  EXPECT_EQ(got->digest, "sha256:x");
  EXPECT_EQ(got->roles, std::vector<std::string>{"approver"});
  EXPECT_EQ(got->expires_at, kIn2026 + 1000);
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].event.subject, made->id);
  EXPECT_EQ(entries[0].event.details.at("status"), "pending");
}

TEST_P(StoreSuite, AnApprovalAtOnceHasARowOfItsOwn) {
  auto asked = wanted();
  asked.escalation.status = model::EscalationStatus::kApproved;
  asked.approval = model::AuditEvent{.action = "escalation.approved",
                                     .subject = "",
                                     .principal = principal("acme"),
                                     .details = {{"reason", "a rule"}}};
  const auto made = add(*store_, asked);
  ASSERT_TRUE(made);
  const auto entries = *store_->audit(Scope::allTenants(), 0, 10);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].event.action, "escalation.requested");
  EXPECT_EQ(entries[1].event.action, "escalation.approved");
  EXPECT_EQ(entries[1].event.subject, made->id);
  EXPECT_EQ(entries[1].event.details.at("status"), "approved");
  EXPECT_TRUE(store_->escalations().mismatches(0, 10)->empty());
  const auto done = commit(*store_, changeEscalation, to(*made, model::EscalationStatus::kUsed));
  EXPECT_TRUE(done);
  EXPECT_TRUE(store_->escalations().mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, AnotherTenantsEscalationIsNone) {
  const auto made = add(*store_, wanted());
  ASSERT_TRUE(made);
  EXPECT_EQ(store_->escalations().get(of("other"), made->id).error().code, Code::kNotFound);
  EXPECT_TRUE(store_->escalations().list(of("other"), {})->empty());
  EXPECT_EQ(store_->escalations().list(of("acme"), {})->size(), 1U);
  ASSERT_TRUE(add(*store_, wanted("other")));
  EXPECT_EQ(store_->escalations().get(all_, made->id).error().code, Code::kConflict)
      << "an administrator has to say whose";
}

TEST_P(StoreSuite, ListsEscalationsByStatusAndAgent) {
  const auto first = add(*store_, wanted());
  NewEscalation other = wanted();
  other.escalation.requester.agent = "bob";
  ASSERT_TRUE(add(*store_, other));
  ASSERT_TRUE(change(*store_, to(*first, model::EscalationStatus::kDenied)));
  const auto list = [&](const EscalationQuery& query) {
    return store_->escalations().list(Scope::ofTenant("acme"), query).value();
  };
  EXPECT_EQ(list({.status = model::EscalationStatus::kPending, .agent = ""}).size(), 1U);
  EXPECT_EQ(list({.status = std::nullopt, .agent = "bob"}).at(0).id, "ESC-2026-002");
  const auto page = list({.status = std::nullopt, .agent = "", .limit = 1});
  ASSERT_EQ(page.size(), 1U);
  EXPECT_EQ(page[0].id, "ESC-2026-002") << "newest first";
  EXPECT_EQ(list({.status = std::nullopt, .agent = "", .before_seq = page[0].seq}).at(0).id,
            "ESC-2026-001");
}

TEST_P(StoreSuite, AnEscalationHasOneEnd) {
  const auto made = add(*store_, wanted());
  ASSERT_TRUE(change(*store_, to(*made, model::EscalationStatus::kApproved)));
  ASSERT_TRUE(change(*store_, to(*made, model::EscalationStatus::kUsed)));
  for (const auto status : {model::EscalationStatus::kApproved, model::EscalationStatus::kUsed,
                            model::EscalationStatus::kDenied}) {
    const auto refused = change(*store_, to(*made, status));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kConflict);
  }
  EXPECT_EQ(auditAll().size(), 3U) << "what was refused left nothing";
  EXPECT_TRUE(store_->escalations().mismatches(0, 10)->empty());
}

// A revoked vote stays on record, and approvers are notified as of a new request.
TEST_P(StoreSuite, AnApprovalMayWaitAgain) {
  const auto made = add(*store_, wanted());
  EscalationChange voted = to(*made, model::EscalationStatus::kApproved);
  voted.apply = [next = voted.apply](model::Escalation& e) {
    e.decisions.emplace_back().person = "ops/user:root";
    return next(e);
  };
  ASSERT_TRUE(change(*store_, voted));
  EscalationChange struck = to(*made, model::EscalationStatus::kPending);
  struck.apply = [next = struck.apply](model::Escalation& e) {
    e.decisions.at(0).revoked = true;
    return next(e);
  };
  ASSERT_TRUE(change(*store_, struck));
  const auto found = store_->escalations().get(of("acme"), made->id);
  EXPECT_EQ(found->status, model::EscalationStatus::kPending);
  EXPECT_TRUE(found->decisions.at(0).revoked);
  const auto told = store_->escalations().dueNotifications("webhook", INT64_MAX, 10);
  EXPECT_EQ(told->back().event, "escalation.requested");
  EXPECT_TRUE(store_->escalations().mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, BoundsWhatWaits) {
  NewEscalation asked = wanted();
  asked.bounds.pending_per_tenant = 1;
  const auto first = add(*store_, asked);
  ASSERT_TRUE(first);
  EXPECT_EQ(add(*store_, asked).error().code, Code::kQuota);
  EXPECT_TRUE(add(*store_, wanted("other")));
  ASSERT_TRUE(change(*store_, to(*first, model::EscalationStatus::kDenied)));
  EXPECT_TRUE(add(*store_, asked));
}

TEST_P(StoreSuite, SaysWhatIsDue) {
  const auto made = add(*store_, wanted());
  EXPECT_TRUE(store_->escalations().dueEscalations(kIn2026 + 999, 10)->empty());
  const auto due = store_->escalations().dueEscalations(kIn2026 + 1000, 10);
  ASSERT_EQ(due->size(), 1U);
  EXPECT_EQ(due->at(0).id, made->id);
  ASSERT_TRUE(change(*store_, to(*made, model::EscalationStatus::kExpired)));
  EXPECT_TRUE(store_->escalations().dueEscalations(INT64_MAX, 10)->empty());
}

TEST_P(StoreSuite, NotificationsWaitUntilTheyAreDelivered) {
  NewEscalation asked = wanted();
  asked.channels = {"webhook", "smtp"};
  const auto made = add(*store_, asked);
  const auto due = [&](const std::string& channel) {
    return store_->escalations().dueNotifications(channel, INT64_MAX, 10).value();
  };
  ASSERT_EQ(due("").size(), 2U);
  const Notification first = due("webhook").at(0);
  EXPECT_EQ(first.event, "escalation.requested");
  EXPECT_EQ(first.escalation, made->id);
  ASSERT_TRUE(commit(*store_, retryNotification, first.seq, INT64_MAX - 1));
  EXPECT_EQ(due("webhook").at(0).attempts, 1U);
  EXPECT_TRUE(store_->escalations().dueNotifications("webhook", kIn2026, 10)->empty());
  ASSERT_TRUE(commit(*store_, finishNotification, first.seq, std::nullopt));
  EXPECT_TRUE(due("webhook").empty());
  ASSERT_TRUE(change(*store_, to(*made, model::EscalationStatus::kApproved)));
  EXPECT_EQ(due("webhook").at(0).event, "escalation.approved");
}

TEST_P(StoreSuite, AFullQueueOfNotificationsHoldsUpNothing) {
  NewEscalation asked = wanted();
  asked.channels = {"webhook", "smtp"};
  asked.bounds.notifications = 1;
  ASSERT_TRUE(add(*store_, asked));
  EXPECT_EQ(store_->escalations().dueNotifications("", INT64_MAX, 10)->size(), 1U);
  EXPECT_EQ(auditAll().back().event.details.at("notifications_left_out"), 1);
}

TEST_P(StoreSuite, AnAgentsEscalationPolicyIsItsTenants) {
  const model::EscalationPolicy policy{
      .agent = "alice", .auto_approve_safe = true, .set_by = admin(), .set_at = 5};
  ASSERT_TRUE(commit(*store_, putEscalationPolicy, "acme", policy,
                     {.action = "escalation.policy_set",
                      .subject = "alice",
                      .principal = admin(),
                      .details = {}}));
  EXPECT_TRUE(store_->escalations().policy("acme", "alice")->auto_approve_safe);
  EXPECT_FALSE(store_->escalations().policy("acme", "bob")->auto_approve_safe);
  EXPECT_FALSE(store_->escalations().policy("other", "alice")->auto_approve_safe);
}

TEST_P(StoreSuite, KnowsHowLongPeopleTake) {
  EXPECT_FALSE(store_->escalations().usualWait(of("acme"))->has_value());
  const auto made = add(*store_, wanted());
  EscalationChange decided = to(*made, model::EscalationStatus::kApproved);
  decided.apply = [next = decided.apply](model::Escalation& e) {
    e.decisions.emplace_back().person = "ops/user:root";
    e.decided_at = e.created_at + 90'000'000;
    return next(e);
  };
  ASSERT_TRUE(change(*store_, decided));
  EXPECT_EQ(store_->escalations().usualWait(of("acme")).value(), 90);
  EXPECT_FALSE(store_->escalations().usualWait(of("other"))->has_value());
}

}  // namespace cloister::store
